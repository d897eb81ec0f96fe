// Who has which bytes of an arena: whole pages for blocks, slots of shared pages for small objects and for headers.
// A block gets everything it needs or nothing. Accounts for every byte: free + overhead + payload = capacity.
// Not synchronised. Objects of at most half a page share one, by size class (2, 3, 4, 6, 8, 12 … 256 slots to a page).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "memory/page_pool.h"
#include "memory/slab_pool.h"
#include "tier/arena_layout.h"

namespace millpond::tier {

// What one block takes.
struct Place {
  static constexpr uint8_t kWholePages = 0xFF;
  std::vector<uint32_t> refs;            // its pages, in order; then the slots of its header
  uint32_t page_count = 0;
  uint32_t offset = 0;                   // of a small object in its page
  uint8_t size_class = kWholePages;
  std::span<const uint32_t> pages() const { return std::span(refs).first(page_count); }
  std::span<const uint32_t> header_slots() const { return std::span(refs).subspan(page_count); }
};

class Space {
 public:
  // Arena and layout must outlive this.
  Space(memory::Arena& arena, ArenaLayout& layout);

  // Room for `length` bytes and a header of `header_slots` slots; false: not enough free pages, nothing changed.
  bool take(uint64_t length, uint32_t header_slots, Place& place);
  void give(const Place& place, uint64_t length);    // the header is cleared already

  uint64_t capacity() const { return uint64_t(arena_.page_count()) * page_size_; }
  uint64_t free_bytes() const { return uint64_t(pool_.free_count()) * page_size_; }
  uint64_t usable_bytes() const { return uint64_t(pool_.page_count()) * page_size_; }   // all but the arena's own pages
  // Bytes that are neither free nor payload: arena and header pages, page tails, free slots.
  uint64_t overhead() const;
  // What a block of this length takes besides its header: whole pages, or a slot.
  uint64_t footprint(uint64_t length) const;
  // True if an empty arena would hold it.
  bool fits(uint64_t length, uint32_t header_slots) const;

 private:
  struct SizeClass {
    uint32_t slot_bytes;
    memory::SlabPool slots;
  };
  uint32_t pages_for(uint64_t length) const { return uint32_t((length + page_size_ - 1) / page_size_); }
  uint8_t class_of(uint64_t length) const;           // kWholePages when it is not small
  uint32_t header_pages_missing(uint32_t header_slots) const;

  memory::Arena& arena_;
  ArenaLayout& layout_;
  const uint64_t page_size_;
  memory::PagePool pool_;
  memory::SlabPool headers_;
  std::vector<SizeClass> classes_;                   // largest slot first
  std::vector<uint32_t> new_pages_;                  // scratch
  uint64_t small_pages_ = 0;
  uint64_t small_payload_ = 0;
  uint64_t tails_ = 0;                               // of whole-page blocks
};

}  // namespace millpond::tier
