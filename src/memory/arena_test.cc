// Goal: an arena is memory that readers of other processes can map and that nobody can cut short under them.
// Method: real memfds of a few MiB; the handles are used as another process would use them.
#include "memory/arena.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/log.h"
#include "memory/machine_memory.h"

namespace millpond::memory {
namespace {

std::unique_ptr<Arena> small_arena(Bytes capacity = MiB(4)) {
  auto arena = Arena::create({.capacity = capacity, .hugepages = false});
  EXPECT_TRUE(arena) << arena.error().text();
  return std::move(*arena);
}

TEST(Arena, IsCutIntoWholePages) {
  auto arena = small_arena({(4 << 20) + 1000});
  EXPECT_EQ(arena->page_count(), 64u);
  EXPECT_EQ(arena->bytes().size(), MiB(4).count);
  EXPECT_EQ(arena->page(PageIndex(3)) - arena->page(PageIndex(0)), 3 * 65536);
}

TEST(ArenaDeathTest, PageOutsideStopsUs) {
  auto arena = small_arena();
  EXPECT_DEATH(arena->page(PageIndex(64)), "page 64 of 64");
}

TEST(Arena, CannotBeCutShortOrGrown) {
  auto arena = small_arena();
  EXPECT_NE(::ftruncate(arena->fd(), 4096), 0);
  EXPECT_EQ(errno, EPERM);
  EXPECT_NE(::ftruncate(arena->fd(), 8 << 20), 0);
  EXPECT_NE(::fcntl(arena->fd(), F_ADD_SEALS, F_SEAL_WRITE), 0);   // nor may anybody add seals
}

TEST(Arena, ReadersSeeWhatIsWrittenAndCannotWrite) {
  auto arena = small_arena();
  std::memcpy(arena->page(PageIndex(7)), "pond", 4);
  auto reader = Arena::map(arena->read_only_fd(), arena->page_size(), false);
  ASSERT_TRUE(reader) << reader.error().text();
  EXPECT_EQ(std::memcmp((*reader)->page(PageIndex(7)), "pond", 4), 0);
  EXPECT_NE((*reader)->page(PageIndex(0)), arena->page(PageIndex(0)));
  EXPECT_EQ(Arena::map(arena->read_only_fd(), arena->page_size(), true).error().code(), Code::unavailable);
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_WRITE, MAP_SHARED, arena->read_only_fd(), 0), MAP_FAILED);
  EXPECT_FALSE((*reader)->fault_next());
}

TEST(Arena, AMappingOutlivesItsMaker) {
  auto arena = small_arena();
  std::memcpy(arena->page(PageIndex(1)), "pond", 4);
  int fd = ::dup(arena->fd());
  arena.reset();
  auto heir = Arena::map(fd, KiB(64), true);
  ASSERT_TRUE(heir) << heir.error().text();
  EXPECT_EQ(std::memcmp((*heir)->page(PageIndex(1)), "pond", 4), 0);
  heir->reset();
  EXPECT_EQ(::close(fd), 0);   // the mapping took no ownership
}

TEST(Arena, IsUsableBeforeItIsFaultedAndFaultingKeepsWhatIsThere) {
  auto arena = small_arena(MiB(40));
  EXPECT_EQ(arena->pages_faulted(), 0u);
  std::memcpy(arena->page(PageIndex(600)), "pond", 4);
  int extents = 1;
  while (arena->fault_next()) ++extents;
  EXPECT_EQ(extents, 3);   // 16 + 16 + 8 MiB
  EXPECT_EQ(arena->pages_faulted(), arena->page_count());
  EXPECT_FALSE(arena->fault_next());
  EXPECT_EQ(std::memcmp(arena->page(PageIndex(600)), "pond", 4), 0);
  std::vector<unsigned char> resident(arena->bytes().size() / 4096);
  ASSERT_EQ(::mincore(arena->bytes().data(), arena->bytes().size(), resident.data()), 0);
  for (auto page : resident) ASSERT_TRUE(page & 1);
}

TEST(Arena, LargerThanTheMachineNamesBothSizes) {
  auto arena = Arena::create({.capacity = {1ull << 46}, .hugepages = false});
  ASSERT_FALSE(arena);
  EXPECT_EQ(arena.error().code(), Code::invalid);
  EXPECT_NE(arena.error().message().find(text(Bytes{1ull << 46})), std::string::npos) << arena.error().text();
  EXPECT_NE(arena.error().message().find("available"), std::string::npos);
}

TEST(Arena, BadSizesAreRefused) {
  for (auto size : {Bytes{0}, Bytes{4096}, Bytes{100'000}, MiB(4)}) {
    auto arena = Arena::create({.capacity = MiB(16), .page_size = size});
    ASSERT_FALSE(arena) << text(size);
    EXPECT_EQ(arena.error().code(), Code::invalid);
  }
  EXPECT_EQ(Arena::create({.capacity = KiB(63)}).error().code(), Code::invalid);
}

TEST(Arena, OnlySealedMemoryIsMapped) {
  EXPECT_EQ(Arena::map(-1, KiB(64), false).error().code(), Code::invalid);
  int plain = ::memfd_create("unsealed", MFD_CLOEXEC);
  ASSERT_GE(plain, 0);
  ASSERT_EQ(::ftruncate(plain, 1 << 20), 0);
  EXPECT_EQ(Arena::map(plain, KiB(64), false).error().code(), Code::invalid);
  ::close(plain);
}

TEST(Arena, SaysWhyThereAreNoHugePages) {
  std::string line;
  auto level = log::level();
  log::set_level(log::Level::info);
  log::set_sink([&](log::Level, std::string_view text) { line += text; });
  auto arena = Arena::create({.capacity = MiB(4), .hugepages = true});
  log::set_sink(nullptr);
  log::set_level(level);
  ASSERT_TRUE(arena) << arena.error().text();
  EXPECT_NE(line.find("pages: "), std::string::npos) << line;
  EXPECT_NE(line.find("4 MiB"), std::string::npos) << line;
}

TEST(MachineMemory, ReadsWhatTheKernelSays) {
  auto memory = parse_meminfo("MemTotal: 100 kB\nMemAvailable:      64 kB\nHugePages_Free:   10\nHugePages_Rsvd: 3\nHugepagesize:  2048 kB\n");
  EXPECT_EQ(memory.available, KiB(64));
  EXPECT_EQ(memory.huge_pages_free, 7u);
  EXPECT_EQ(memory.huge_page_size, MiB(2));
  EXPECT_EQ(parse_meminfo("").available.count, ~0ull);
  EXPECT_EQ(parse_group_limit("1048576\n"), std::optional(MiB(1)));
  EXPECT_FALSE(parse_group_limit("max\n"));
  EXPECT_FALSE(parse_group_limit("9223372036854771712\n"));
  EXPECT_FALSE(parse_group_limit(""));
  memory.group_limit = KiB(10);
  EXPECT_EQ(memory.limit(), KiB(10));
}

}  // namespace
}  // namespace millpond::memory
