// Goal: every byte of the arena is accounted for; headers in the arena can be found by whoever maps it next.
// Method: a small arena; random takes and gives; scans through a second, read-only mapping.
#include "tier/space.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "base/checksum.h"
#include "base/random.h"

namespace millpond::tier {
namespace {

struct Made {
  std::unique_ptr<memory::Arena> arena;
  ArenaLayout layout;
  Space space;
  explicit Made(Bytes capacity, Bytes page_size = KiB(64))
      : arena(*memory::Arena::create({.capacity = capacity, .page_size = page_size, .hugepages = false})),
        layout(*ArenaLayout::format(*arena, 3)), space(*arena, layout) {}
};

TEST(Space, WholePagesAndSharedPages) {
  Made made(MiB(4));
  EXPECT_EQ(made.space.usable_bytes(), MiB(4).count - KiB(64).count);
  EXPECT_EQ(made.space.footprint(65537), 2 * KiB(64).count);
  EXPECT_EQ(made.space.footprint(KiB(33).count), KiB(64).count);
  EXPECT_EQ(made.space.footprint(KiB(32).count), KiB(32).count);
  EXPECT_EQ(made.space.footprint(1), 256u);
  Place a, b;
  ASSERT_TRUE(made.space.take(5000, 1, a));
  ASSERT_TRUE(made.space.take(5000, 1, b));
  EXPECT_EQ(a.refs[0], b.refs[0]);   // one page
  EXPECT_NE(a.offset, b.offset);
  EXPECT_EQ(made.space.free_bytes(), made.space.usable_bytes() - 2 * KiB(64).count);   // one for objects, one for headers
  made.space.give(a, 5000);
  made.space.give(b, 5000);
  EXPECT_EQ(made.space.free_bytes(), made.space.usable_bytes());
}

TEST(Space, AllOrNothing) {
  Made made(MiB(1));   // 16 pages: 1 of the arena's, 15 for us
  Place place;
  EXPECT_FALSE(made.space.take(15 * KiB(64).count, 1, place));   // the header needs one too
  EXPECT_EQ(made.space.free_bytes(), made.space.usable_bytes());
  EXPECT_TRUE(made.space.take(14 * KiB(64).count, 1, place));
  EXPECT_TRUE(made.space.fits(14 * KiB(64).count, 1));
  EXPECT_FALSE(made.space.fits(15 * KiB(64).count, 1));
}

TEST(Space, RandomRunNeverOverlapsAndAlwaysAddsUp) {
  for (Bytes page_size : {KiB(64), MiB(2)}) {
    Made made(MiB(64), page_size);
    Random random(page_size.count);
    struct Taken {
      Place place;
      uint64_t length;
    };
    std::vector<Taken> taken;
    std::map<uint64_t, uint64_t> extents;   // start → end, of every byte that somebody has
    uint64_t payload = 0;
    auto extents_of = [&](const Taken& t) {
      std::vector<std::pair<uint64_t, uint64_t>> result;
      uint64_t left = t.length;
      for (uint32_t page : t.place.pages()) {
        uint64_t start = page * page_size.count + t.place.offset, bytes = std::min(left, page_size.count - t.place.offset);
        result.push_back({start, start + bytes});
        left -= bytes;
      }
      EXPECT_EQ(left, 0u);
      for (uint32_t slot : t.place.header_slots()) result.push_back({slot * 512ull, slot * 512ull + 512});
      return result;
    };
    for (int step = 0; step < 5000; ++step) {
      if (random.chance(0.55)) {
        uint64_t length = random.chance(0.5) ? 1 + random.below(40'000) : 1 + random.below(MiB(3).count);
        uint32_t slots = header_slots_for(wire::block_header_bytes(chunk_count(length), length / page_size.count + 1, 40));
        Taken t{{}, length};
        if (!made.space.take(length, slots, t.place)) continue;
        payload += length;
        for (auto [start, end] : extents_of(t)) {
          auto next = extents.lower_bound(start);
          ASSERT_TRUE(next == extents.end() || next->first >= end);
          ASSERT_TRUE(next == extents.begin() || std::prev(next)->second <= start);
          ASSERT_GE(start, made.layout.arena_pages() * page_size.count);
          ASSERT_LE(end, made.space.capacity());
          extents[start] = end;
        }
        taken.push_back(std::move(t));
      } else if (!taken.empty()) {
        std::swap(taken[random.below(taken.size())], taken.back());
        for (auto [start, end] : extents_of(taken.back())) extents.erase(start);
        made.space.give(taken.back().place, taken.back().length);
        payload -= taken.back().length;
        taken.pop_back();
      }
      ASSERT_EQ(payload + made.space.overhead() + made.space.free_bytes(), made.space.capacity());
    }
    for (auto& t : taken) made.space.give(t.place, t.length);
    EXPECT_EQ(made.space.free_bytes(), made.space.usable_bytes());
  }
}

TEST(ArenaLayout, ScanFindsWhatWasCommittedAndNothingElse) {
  Made made(MiB(64));
  auto store = [&](uint64_t number, uint64_t length) {
    Place place;
    std::string key = "key " + std::to_string(number);
    std::vector<uint64_t> sums(chunk_count(length), number);
    uint64_t pages = (length + 65535) / 65536;
    EXPECT_TRUE(made.space.take(length, header_slots_for(wire::block_header_bytes(sums.size(), pages, key.size())), place));
    ByteVector header(wire::block_header_bytes(sums.size(), pages, key.size()));
    wire::encode_block_header({.id = {number, number, 1, 0, 0}, .length = length, .root = number, .generation = number,
                               .page_offset = place.offset, .sums = sums, .pages = place.pages(), .key = key}, header);
    made.layout.write_header(place.header_slots(), header);
    return place;
  };
  store(1, 40 << 20);
  auto second = store(2, 2 << 20);
  store(3, 100);
  Place unfinished;
  ASSERT_TRUE(made.space.take(1 << 20, 3, unfinished));

  auto reader = memory::Arena::map(made.arena->read_only_fd(), KiB(64), false);
  ASSERT_TRUE(reader);
  auto found = scan(**reader);
  ASSERT_TRUE(found) << found.error().text();
  EXPECT_EQ(found->arena.boot_counter, 3u);
  EXPECT_EQ(found->corrupt, 0u);
  ASSERT_EQ(found->blocks.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(found->blocks[i].root, i + 1);
    EXPECT_EQ(found->blocks[i].key, "key " + std::to_string(i + 1));
  }
  made.layout.clear_header(second.header_slots());
  EXPECT_EQ(scan(**reader)->blocks.size(), 2u);
}

TEST(ArenaLayout, ScanSurvivesJunk) {
  Made made(MiB(4));
  Random random(7);
  auto reader = memory::Arena::map(made.arena->read_only_fd(), KiB(64), false);
  EXPECT_TRUE(scan(**reader)->blocks.empty());
  made.layout.add_header_page(memory::PageIndex(5));
  for (int round = 0; round < 200; ++round) {
    auto* page = made.arena->page(memory::PageIndex(5));
    for (int i = 0; i < 65536; i += 8) {
      uint64_t word = random.chance(0.5) ? random.below(4) : random.next();
      std::memcpy(page + i, &word, 8);
    }
    for (int slot = 0; slot < 128; ++slot) {   // a first slot with the right magic, then junk; chains that bite their tails
      uint32_t next = 5 * 128 + uint32_t(random.below(128)), first = 1, magic = 0x4842504D;
      std::memcpy(page + slot * 512, &next, 4);
      std::memcpy(page + slot * 512 + 4, &first, 4);
      std::memcpy(page + slot * 512 + 16, &magic, 4);
    }
    auto found = scan(**reader);
    ASSERT_TRUE(found);
    EXPECT_TRUE(found->blocks.empty());
    EXPECT_GT(found->corrupt, 0u);
  }
  std::memset(made.arena->page(memory::PageIndex(0)), 0, 8);
  EXPECT_EQ(scan(**reader).error().code(), Code::corrupt);
}

TEST(ArenaLayout, TooSmallIsSaid) {
  auto arena = memory::Arena::create({.capacity = KiB(256), .hugepages = false});
  ASSERT_TRUE(arena);
  auto layout = ArenaLayout::format(**arena, 1);
  ASSERT_FALSE(layout);
  EXPECT_EQ(layout.error().code(), Code::invalid);
}

}  // namespace
}  // namespace millpond::tier
