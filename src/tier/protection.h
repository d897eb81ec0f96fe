// The budget of looked-up blocks: how many bytes may be kept from eviction, and when each of them counts no more.
// First come, first kept. A block in the list is refreshed without taking more. All times given must end equally far
// ahead (now + the same duration), so the list is in order of expiry and each call is O(1) or O(expired).
// Not synchronised. Lives in the table's records.
#pragma once
#include "tier/block_table.h"

namespace millpond::tier {

class Protection {
 public:
  Protection(BlockTable& table, uint64_t budget) : table_(table), budget_(budget) {}

  bool protect(SlotIndex slot, uint64_t bytes, Time until);   // false: beyond the budget. REQUIRES: bytes > 0
  void release(SlotIndex slot);                               // no effect on a block that is not protected
  void expire(Time now);                                      // releases each block whose time has come
  uint64_t bytes() const { return bytes_; }

 private:
  void link_last(SlotIndex slot);
  void unlink(SlotIndex slot);
  BlockTable& table_;
  const uint64_t budget_;
  uint64_t bytes_ = 0;
  SlotIndex first_ = kNoSlot, last_ = kNoSlot;
};

}  // namespace millpond::tier
