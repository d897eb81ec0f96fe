#include "tier/protection.h"

#include "base/check.h"

namespace millpond::tier {

void Protection::link_last(SlotIndex slot) {
  Block& block = table_.at(slot);
  block.protected_previous = last_.value;
  block.protected_next = kNoSlot.value;
  if (last_ != kNoSlot) table_.at(last_).protected_next = slot.value;
  last_ = slot;
  if (first_ == kNoSlot) first_ = slot;
}

void Protection::unlink(SlotIndex slot) {
  Block& block = table_.at(slot);
  SlotIndex previous(block.protected_previous), next(block.protected_next);
  if (previous != kNoSlot) table_.at(previous).protected_next = next.value;
  if (next != kNoSlot) table_.at(next).protected_previous = previous.value;
  if (first_ == slot) first_ = next;
  if (last_ == slot) last_ = previous;
}

bool Protection::protect(SlotIndex slot, uint64_t bytes, Time until) {
  Block& block = table_.at(slot);
  if (block.protected_bytes > 0) {
    unlink(slot);
  } else {
    if (bytes_ + bytes > budget_) return false;
    bytes_ += bytes;
    block.protected_bytes = bytes;
  }
  block.protected_until = until;
  link_last(slot);
  return true;
}

void Protection::release(SlotIndex slot) {
  Block& block = table_.at(slot);
  if (block.protected_bytes == 0) return;
  unlink(slot);
  MP_CHECK(bytes_ >= block.protected_bytes, "{} bytes protected, {} released", bytes_, block.protected_bytes);
  bytes_ -= block.protected_bytes;
  block.protected_bytes = 0;
}

void Protection::expire(Time now) {
  while (first_ != kNoSlot && table_.at(first_).protected_until <= now) release(first_);
}

}  // namespace millpond::tier
