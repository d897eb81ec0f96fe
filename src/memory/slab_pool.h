// Slots of one size, packed into pages: where small objects and block headers live.
// Fills the page that has been partly free for longest; a slot that comes free joins at the end, so that thinly filled
// pages get time to empty and go back to the page pool.
// Pure; not synchronised. Does not own pages: is given them by add_page() and hands them back when empty.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "memory/arena.h"

namespace millpond::memory {

struct SlabSlot {
  PageIndex page{};
  uint32_t index = 0;   // in its page
  auto operator<=>(const SlabSlot&) const = default;
};

class SlabPool {
 public:
  explicit SlabPool(uint32_t slots_per_page);

  uint32_t slots_per_page() const { return slots_per_page_; }
  uint64_t free_slots() const { return uint64_t(pages_.size()) * slots_per_page_ - used_; }
  uint64_t used_slots() const { return used_; }
  size_t page_count() const { return pages_.size(); }

  void add_page(PageIndex page);
  SlabSlot take();                                     // REQUIRES: free_slots() > 0
  // The page, when this was its last used slot: it is no longer ours. REQUIRES: taken and not given back since.
  std::optional<PageIndex> give(SlabSlot slot);

 private:
  struct Page {
    std::vector<uint64_t> free_bits;
    uint32_t used = 0;
    uint32_t previous = kNone, next = kNone;           // in the list of pages with room
  };
  static constexpr uint32_t kNone = 0xFFFFFFFF;
  void link(uint32_t page, Page& record);
  void unlink(uint32_t page, Page& record);

  const uint32_t slots_per_page_;
  uint64_t used_ = 0;
  boost::unordered_flat_map<uint32_t, Page> pages_;
  uint32_t head_ = kNone, tail_ = kNone;
};

}  // namespace millpond::memory
