// One arena: memory of a node that other processes of the host can map, cut into pages.
//
// A memfd, sealed against shrinking and growing (a mapped reader can never fault with SIGBUS), of hugepages when the
// system has them. Allocated and faulted extent by extent by fault_next(), so that a node of many GiB is usable at
// once. Not a file in /dev/shm: that could be truncated under its readers, and containers give it 64 MB.
// Limits: 2^32 pages. Design: docs/design/memory.md.
#pragma once
#include <memory>
#include <string>

#include "base/bytes.h"
#include "base/id.h"
#include "base/status.h"

namespace millpond::memory {

struct PageIndex : Id<PageIndex, uint32_t> { using Id::Id; };      // of a page in its arena
struct ArenaIndex : Id<ArenaIndex, uint16_t> { using Id::Id; };    // of an arena in its node

struct ArenaOptions {
  Bytes capacity;                        // rounded down to whole pages
  Bytes page_size = KiB(64);             // power of two, 64 KiB … 2 MiB
  bool hugepages = true;                 // try; fall back with one log line that says why
  std::string name = "millpond";
};

class Arena {
 public:
  // invalid: larger than the memory that is available (says both), page size out of range.
  static Result<std::unique_ptr<Arena>> create(ArenaOptions options);
  // A mapping of an arena that another process made; read-only unless `writable`. Takes no ownership of the fd.
  static Result<std::unique_ptr<Arena>> map(int fd, Bytes page_size, bool writable);
  ~Arena();
  Arena(const Arena&) = delete;

  uint32_t page_count() const;
  Bytes page_size() const;
  std::byte* page(PageIndex page) const; // MP_CHECK: inside
  MutableByteSpan bytes() const;
  int fd() const;                        // read-write; the arena owns it
  int read_only_fd() const;              // for readers; the arena owns it
  bool hugepages() const;

  // Allocates and faults the next extent (16 MiB); false when all is done. From one background thread.
  bool fault_next();
  uint32_t pages_faulted() const;        // pages below this one are in memory; any thread

 private:
  Arena();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millpond::memory
