#include "memory/slab_pool.h"

#include <bit>

#include "base/check.h"

namespace millpond::memory {

SlabPool::SlabPool(uint32_t slots_per_page) : slots_per_page_(slots_per_page) {
  MP_CHECK(slots_per_page > 0, "a page of no slots");
}

void SlabPool::link(uint32_t page, Page& record) {
  record.previous = tail_;
  record.next = kNone;
  if (tail_ != kNone) pages_.at(tail_).next = page;
  tail_ = page;
  if (head_ == kNone) head_ = page;
}

void SlabPool::unlink(uint32_t page, Page& record) {
  if (record.previous != kNone) pages_.at(record.previous).next = record.next;
  if (record.next != kNone) pages_.at(record.next).previous = record.previous;
  if (head_ == page) head_ = record.next;
  if (tail_ == page) tail_ = record.previous;
  record.previous = record.next = kNone;
}

void SlabPool::add_page(PageIndex page) {
  auto [at, is_new] = pages_.try_emplace(page.value);
  MP_CHECK(is_new, "page {} is here already", page.value);
  auto& bits = at->second.free_bits;
  bits.assign((slots_per_page_ + 63) / 64, ~0ull);
  if (uint32_t rest = slots_per_page_ % 64) bits.back() = (1ull << rest) - 1;
  link(page.value, at->second);
}

SlabSlot SlabPool::take() {
  MP_CHECK(head_ != kNone, "no free slot");
  uint32_t page = head_;
  Page& record = pages_.at(page);
  for (uint32_t word = 0;; ++word) {
    uint64_t& bits = record.free_bits[word];
    if (bits == 0) continue;
    uint32_t bit = uint32_t(std::countr_zero(bits));
    bits &= bits - 1;
    ++used_;
    if (++record.used == slots_per_page_) unlink(page, record);
    return {PageIndex(page), word * 64 + bit};
  }
}

std::optional<PageIndex> SlabPool::give(SlabSlot slot) {
  auto at = pages_.find(slot.page.value);
  MP_CHECK(at != pages_.end() && slot.index < slots_per_page_, "slot {} of page {} is not ours", slot.index, slot.page.value);
  Page& record = at->second;
  uint64_t& bits = record.free_bits[slot.index / 64];
  uint64_t bit = 1ull << (slot.index % 64);
  MP_CHECK((bits & bit) == 0, "slot {} of page {} given back twice", slot.index, slot.page.value);
  if (record.used == slots_per_page_) link(slot.page.value, record);
  bits |= bit;
  --used_;
  if (--record.used > 0) return std::nullopt;
  unlink(slot.page.value, record);
  pages_.erase(at);
  return slot.page;
}

}  // namespace millpond::memory
