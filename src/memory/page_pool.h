// Which pages of an arena are free, and which of them is handed out next: the one that was given back longest ago, so
// that a reader that copies without a pin has as long as possible. Pages that were never in memory come last: faulting
// one costs ten times the copy into it.
// Pure; not synchronised. Limits: 2^32 pages; 4 bytes for each free page that was used before.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "memory/arena.h"

namespace millpond::memory {

class PagePool {
 public:
  // All pages from `first` to the end of the arena are free and were never used.
  PagePool(uint32_t first, uint32_t page_count);

  uint32_t free_count() const { return uint32_t(returned_.size()) + (page_count_ - fresh_); }
  uint32_t page_count() const { return page_count_ - first_; }   // free and taken

  // Appends `count` pages to `pages`; all or nothing (false). Pages below `faulted` are in memory
  // (Arena::pages_faulted). Order: never used and in memory, given back (oldest first), never used and not in memory.
  bool take(uint32_t count, uint32_t faulted, std::vector<uint32_t>& pages);
  // REQUIRES: taken from this pool and not given back since.
  void give(PageIndex page);

 private:
  const uint32_t first_;
  const uint32_t page_count_;
  uint32_t fresh_;                  // pages from here on were never taken
  std::deque<uint32_t> returned_;   // oldest at the front
};

}  // namespace millpond::memory
