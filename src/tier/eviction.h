// Who leaves the tier next. A policy sees blocks as they come, are used and go; it never sees bytes.
// Lives on: inside a tier, under its mutex. Every call costs O(log n) or less; none walks the table.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>

#include "base/block_id.h"
#include "base/time.h"

namespace millpond::tier {

// The policy's own record of a block, kept inside the tier's entry (no second table).
struct SlotIndex : Id<SlotIndex, uint32_t> { using Id::Id; };
inline constexpr SlotIndex kNoSlot{0xFFFFFFFF};

class EvictionPolicy {
 public:
  virtual ~EvictionPolicy() = default;
  // `slot` is dense and reused after gone(). `parent`: slot of its parent here, or kNoSlot.
  virtual void added(SlotIndex slot, SlotIndex parent, uint64_t bytes, Time now) = 0;
  virtual void used(SlotIndex slot, Time now) = 0;
  virtual void gone(SlotIndex slot) = 0;                 // evicted or dropped; children (if any) become roots
  virtual void protect(SlotIndex slot, Time until) = 0;  // not a victim before `until`
  // The block that should leave next and is not protected at `now`; nullopt: nobody may leave.
  virtual std::optional<SlotIndex> victim(Time now) = 0;
  virtual Duration victim_age(Time now) = 0;             // since the next victim was last used; max() when nobody is here
};

// Leaf-first LRU: only blocks without a child here may leave, the least recently used first; a leaving child hands its
// stamp to its parent. Evicting only leaves loses nothing: a parent is never needed later than its child.
std::unique_ptr<EvictionPolicy> make_leaf_lru();

}  // namespace millpond::tier
