#include "memory/arena.h"

#include <fcntl.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/reached.h"
#include "memory/machine_memory.h"

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23   // Linux 5.14; glibc of Debian 12 knows it, older ones do not
#endif

namespace millpond::memory {
namespace {

constexpr uint64_t kExtentBytes = 16 << 20;   // ~4 ms of faulting: short enough to stop between two

struct Fd {
  int value = -1;
  Fd() = default;
  explicit Fd(int fd) : value(fd) {}
  Fd(Fd&& other) noexcept : value(std::exchange(other.value, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(value, other.value);
    return *this;
  }
  ~Fd() {
    if (value >= 0) ::close(value);
  }
};

std::string system_error() { return std::strerror(errno); }

Status check_page_size(Bytes size) {
  if (std::has_single_bit(size.count) && size >= KiB(64) && size <= MiB(2)) return {};
  return Status(Code::invalid, "page size {}: must be a power of two from 64 KiB to 2 MiB", text(size));
}

// What the kernel does with MADV_HUGEPAGE on shared memory: the word in brackets, "" when unknown.
std::string shared_huge_pages() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  std::string line;
  std::getline(file, line);
  auto open = line.find('['), close = line.find(']');
  return open < close && close != std::string::npos ? line.substr(open + 1, close - open - 1) : "";
}

struct Mapped {
  Fd fd;
  std::byte* base = nullptr;
  uint64_t bytes = 0;
  bool hugepages = false;
};

// A sealed memfd of `bytes`, mapped. `flags`: of memfd_create, besides close-on-exec and sealing.
Result<Mapped> make_memfd(const std::string& name, uint64_t bytes, unsigned flags) {
  Mapped made{.fd = Fd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING | flags)), .bytes = bytes};
  if (made.fd.value < 0) return error(Code::unavailable, "memfd_create: {}", system_error());
  if (::ftruncate(made.fd.value, off_t(bytes)) != 0) return error(Code::unavailable, "ftruncate to {}: {}", text(Bytes{bytes}), system_error());
  if (::fcntl(made.fd.value, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return error(Code::unavailable, "sealing the arena: {}", system_error());
  }
  void* at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, made.fd.value, 0);
  if (at == MAP_FAILED) return error(Code::unavailable, "mapping {}: {}", text(Bytes{bytes}), system_error());
  made.base = static_cast<std::byte*>(at);
  return made;
}

}  // namespace

struct Arena::State {
  std::byte* base = nullptr;
  uint64_t mapped_bytes = 0;
  uint64_t page_size = 0;
  uint32_t page_count = 0;
  Fd owned_fd, owned_read_only_fd;
  int fd = -1, read_only_fd = -1;
  bool hugepages = false;
  bool populate_works = true;
  std::atomic<uint32_t> pages_faulted{0};

  ~State() {
    if (base) ::munmap(base, mapped_bytes);
  }
};

Arena::Arena() : state_(std::make_unique<State>()) {}
Arena::~Arena() = default;

Result<std::unique_ptr<Arena>> Arena::create(ArenaOptions options) {
  MP_OK(check_page_size(options.page_size));
  uint64_t page_size = options.page_size.count;
  uint64_t bytes = options.capacity.count / page_size * page_size;
  if (bytes == 0) return error(Code::invalid, "arena of {}: smaller than one page of {}", text(options.capacity), text(options.page_size));
  if (bytes / page_size > 0xFFFFFFFF) return error(Code::invalid, "arena of {}: more than 2^32 pages of {}", text(options.capacity), text(options.page_size));
  auto machine = machine_memory();
  if (bytes > machine.limit().count) {
    return error(Code::invalid, "arena of {} is more than there is: {} available on this machine, control group limit {}; set a smaller memory",
                 text(Bytes{bytes}), text(machine.available), machine.group_limit ? text(*machine.group_limit) : "none");
  }

  Mapped mapped;
  std::string why = "hugepages = no";
  if (options.hugepages) {
    uint64_t huge = machine.huge_page_size.count;
    uint64_t whole = bytes / std::max(huge, page_size) * std::max(huge, page_size);
    if (whole == 0 || machine.huge_pages_free * huge < whole) {
      why = fmt::format("the system's pool has {} free huge pages of {}, {} are needed", machine.huge_pages_free, text(machine.huge_page_size), (bytes + huge - 1) / huge);
    } else if (auto made = make_memfd(options.name, whole, MFD_HUGETLB); made) {
      mapped = *std::move(made);
      mapped.hugepages = true;
      bytes = whole;
      why = "from the system's pool";
    } else {
      why = made.error().message();
    }
  }
  if (!mapped.base) {
    MP_TRY(mapped, make_memfd(options.name, bytes, 0));
    if (options.hugepages) {
      auto mode = shared_huge_pages();
      bool advised = ::madvise(mapped.base, bytes, MADV_HUGEPAGE) == 0;
      mapped.hugepages = advised && (mode == "always" || mode == "within_size" || mode == "advise" || mode == "force");
      why += fmt::format("; transparent huge pages for shared memory: {}", mode.empty() ? "unknown" : mode);
    }
  }

  std::unique_ptr<Arena> arena(new Arena());
  State& state = *arena->state_;
  state.base = mapped.base;
  state.mapped_bytes = mapped.bytes;
  state.owned_fd = std::move(mapped.fd);
  state.fd = state.owned_fd.value;
  state.page_size = page_size;
  state.page_count = uint32_t(bytes / page_size);
  state.hugepages = mapped.hugepages;
  state.owned_read_only_fd = Fd(::open(fmt::format("/proc/self/fd/{}", state.fd).c_str(), O_RDONLY | O_CLOEXEC));
  state.read_only_fd = state.owned_read_only_fd.value;
  if (state.read_only_fd < 0) return error(Code::unavailable, "a read-only handle on the arena: {} (is /proc mounted?)", system_error());
  log::info("arena {}: {} in {}: {}", options.name, text(Bytes{bytes}), mapped.hugepages ? "huge pages" : "small system pages", why);
  return arena;
}

Result<std::unique_ptr<Arena>> Arena::map(int fd, Bytes page_size, bool writable) {
  MP_OK(check_page_size(page_size));
  struct stat about {};
  if (::fstat(fd, &about) != 0) return error(Code::invalid, "arena handle {}: {}", fd, system_error());
  // Unsealed, its maker could cut it short and our next read would be a SIGBUS.
  constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;
  int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) return error(Code::invalid, "arena handle {} is not a memfd sealed against shrinking and growing", fd);
  uint64_t bytes = uint64_t(about.st_size) / page_size.count * page_size.count;
  if (bytes == 0 || bytes / page_size.count > 0xFFFFFFFF) {
    return error(Code::invalid, "arena handle {}: {} is not 1 to 2^32 pages of {}", fd, text(Bytes{uint64_t(about.st_size)}), text(page_size));
  }
  void* at = ::mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) return error(Code::unavailable, "mapping {} of another process: {}", text(Bytes{bytes}), system_error());
  std::unique_ptr<Arena> arena(new Arena());
  State& state = *arena->state_;
  state.base = static_cast<std::byte*>(at);
  state.mapped_bytes = bytes;
  state.page_size = page_size.count;
  state.page_count = uint32_t(bytes / page_size.count);
  state.pages_faulted = state.page_count;   // its maker faults; here there is nothing to do
  (writable ? state.fd : state.read_only_fd) = fd;
  return arena;
}

uint32_t Arena::page_count() const { return state_->page_count; }
Bytes Arena::page_size() const { return {state_->page_size}; }
std::byte* Arena::page(PageIndex page) const {
  MP_CHECK(page.value < state_->page_count, "page {} of {}", page.value, state_->page_count);
  return state_->base + uint64_t(page.value) * state_->page_size;
}
MutableByteSpan Arena::bytes() const { return {state_->base, uint64_t(state_->page_count) * state_->page_size}; }
int Arena::fd() const { return state_->fd; }
int Arena::read_only_fd() const { return state_->read_only_fd; }
bool Arena::hugepages() const { return state_->hugepages; }
uint32_t Arena::pages_faulted() const { return state_->pages_faulted.load(std::memory_order_relaxed); }

bool Arena::fault_next() {
  State& state = *state_;
  uint64_t from = uint64_t(pages_faulted()) * state.page_size;
  uint64_t all = uint64_t(state.page_count) * state.page_size;
  if (from >= all) return false;
  uint64_t step = std::min(kExtentBytes, all - from);
  // Allocating first turns "no memory" into an error here instead of a SIGBUS at the first write.
  if (::fallocate(state.fd, 0, off_t(from), off_t(step)) != 0 && errno != EOPNOTSUPP && errno != EINTR) {
    MP_REACHED("arena: fallocate failed");
    log::warn("arena: {} of {} are in memory, no more for now: {}", text(Bytes{from}), text(Bytes{all}), system_error());
    return false;
  }
  std::byte* at = state.base + from;
  if (state.populate_works && ::madvise(at, step, MADV_POPULATE_WRITE) != 0) {
    MP_REACHED("arena: kernel without MADV_POPULATE_WRITE");
    state.populate_works = false;
  }
  if (!state.populate_works) {   // a write that changes nothing: somebody may be storing there right now
    for (uint64_t offset = 0; offset < step; offset += 4096) __atomic_fetch_or(reinterpret_cast<uint8_t*>(at + offset), uint8_t(0), __ATOMIC_RELAXED);
  }
  state.pages_faulted.store(uint32_t((from + step) / state.page_size), std::memory_order_relaxed);
  return from + step < all;
}

}  // namespace millpond::memory
