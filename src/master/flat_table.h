// An open-addressing table of slots keyed by BlockId: what the directory's shards are made of.
//
// Groups of 15 slots with one byte of hash each (F14; Bronson and Shi, 2019): a probe reads 16 bytes of tags, then almost
// always exactly the right slot. A group counts how many of its ids had to go further, so an erased slot is free at once
// and a table that lives under constant eviction does not silt up with tombstones.
// Why our own and not boost::unordered_flat_map: a batch of probes can be prefetched in two steps (boost hides where a
// hash lands), it grows by a quarter (boost doubles: 112 bytes per key just after), and slots stay where they are on
// erase, so that a sweep can stop anywhere. bench/directory_bench.cc measures both.
//
// Lives on: one thread. Pointers to slots are valid until the next insert.
#pragma once
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <bit>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "base/block_id.h"

namespace millpond::master {

// Ids are hashes already; mixing costs a nanosecond and spares us ids that are not (tests, hostile clients).
inline uint64_t table_hash(const BlockId& id) {
  uint64_t x = id.low ^ (id.high * 0x9E3779B97F4A7C15ull) ^ ((uint64_t(id.namespace_id) << 16 | id.part) * 0xC2B2AE3D27D4EB4Full);
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
  x = (x ^ (x >> 32)) * 0xD6E8FEB86659FD93ull;
  return x ^ (x >> 32);
}

// Slot: trivially copyable, with a member `BlockId id`.
template <typename Slot>
class FlatTable {
 public:
  static constexpr size_t kGroupSlots = 15;

  size_t size() const { return size_; }
  size_t groups() const { return groups_; }
  size_t bytes() const { return groups_ * (sizeof(Group) + kGroupSlots * sizeof(Slot)); }
  uint32_t moves() const { return moves_; }   // changes whenever slots have moved (growth)

  // Two steps of a batched probe: first the tags of all, then the slots of all, then find().
  void prefetch_tags(uint64_t hash) const {
    if (groups_) __builtin_prefetch(&tags_[home(hash)]);
  }
  void prefetch_slot(uint64_t hash) const {
    if (!groups_) return;
    size_t group = home(hash);
    uint32_t hits = match(tags_[group], tag_of(hash));
    if (!hits) return;
    auto* slot = reinterpret_cast<const char*>(&slots_[group * kGroupSlots + std::countr_zero(hits)]);
    __builtin_prefetch(slot);
    __builtin_prefetch(slot + sizeof(Slot) - 1);
  }

  Slot* find(const BlockId& id, uint64_t hash) const {
    if (!groups_) return nullptr;
    uint8_t tag = tag_of(hash);
    size_t group = home(hash);
    for (size_t walked = 0; walked < groups_; ++walked) {
      for (uint32_t hits = match(tags_[group], tag); hits; hits &= hits - 1) {
        Slot* slot = &slots_[group * kGroupSlots + std::countr_zero(hits)];
        if (same(slot->id, id)) return slot;
      }
      if (!tags_[group].overflow) return nullptr;
      if (++group == groups_) group = 0;
    }
    return nullptr;
  }

  // The slot of `id`; the second is true if it is new: then all of it but the id is zero.
  std::pair<Slot*, bool> insert(const BlockId& id, uint64_t hash) {
    if (Slot* slot = find(id, hash)) return {slot, false};
    if (size_ + 1 > size_max()) grow();
    Slot* slot = place(hash);
    *slot = Slot{};
    slot->id = id;
    ++size_;
    return {slot, true};
  }

  // REQUIRES: `slot` is of this table and in use.
  void erase(Slot* slot) {
    uint64_t hash = table_hash(slot->id);
    size_t place = size_t(slot - slots_.get());
    size_t last = place / kGroupSlots;
    for (size_t group = home(hash); group != last;) {
      if (tags_[group].overflow != 255) --tags_[group].overflow;   // 255: lost count, stays until the table grows
      if (++group == groups_) group = 0;
    }
    tags_[last].tag[place % kGroupSlots] = 0;
    --size_;
  }

  // Calls visit(Slot&) for each slot in use of one group; true: the slot is erased.
  template <typename Visit>
  void sweep_group(size_t group, Visit visit) {
    for (size_t i = 0; i < kGroupSlots; ++i)
      if (tags_[group].tag[i])
        if (Slot* slot = &slots_[group * kGroupSlots + i]; visit(*slot)) erase(slot);
  }
  template <typename Visit>
  void for_each(Visit visit) const {
    for (size_t group = 0; group < groups_; ++group)
      for (size_t i = 0; i < kGroupSlots; ++i)
        if (tags_[group].tag[i]) visit(const_cast<const Slot&>(slots_[group * kGroupSlots + i]));
  }

 private:
  struct alignas(16) Group {
    uint8_t tag[kGroupSlots] = {};   // 0: free
    uint8_t overflow = 0;            // ids whose path led through this full group
  };

  static uint8_t tag_of(uint64_t hash) { return uint8_t(hash) ? uint8_t(hash) : 1; }
  size_t home(uint64_t hash) const { return (hash >> 32) * groups_ >> 32; }
  size_t size_max() const { return groups_ * kGroupSlots * 7 / 8; }
  static bool same(const BlockId& a, const BlockId& b) { return std::memcmp(&a, &b, sizeof a) == 0; }
  static uint32_t match(const Group& group, uint8_t tag) {
#if defined(__SSE2__)
    __m128i tags = _mm_load_si128(reinterpret_cast<const __m128i*>(&group));
    return uint32_t(_mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(char(tag))))) & 0x7FFF;
#else
    uint32_t hits = 0;
    for (size_t i = 0; i < kGroupSlots; ++i) hits |= uint32_t(group.tag[i] == tag) << i;
    return hits;
#endif
  }

  // A free slot on the path of `hash`, tagged.
  Slot* place(uint64_t hash) {
    size_t group = home(hash);
    for (;;) {
      if (uint32_t free = match(tags_[group], 0)) {
        int at = std::countr_zero(free);
        tags_[group].tag[at] = tag_of(hash);
        return &slots_[group * kGroupSlots + at];
      }
      if (tags_[group].overflow != 255) ++tags_[group].overflow;
      if (++group == groups_) group = 0;
    }
  }

  // By a quarter: just after growing, 70 % of the slots are in use. An id is moved about four times while a table grows
  // to any size; a shard is small, so that the pause is too.
  void grow() {
    auto old_tags = std::move(tags_);
    auto old_slots = std::move(slots_);
    groups_ = groups_ < 4 ? groups_ + 1 : groups_ + groups_ / 4;
    tags_ = std::vector<Group>(groups_);
    slots_ = std::make_unique_for_overwrite<Slot[]>(groups_ * kGroupSlots);
    for (size_t group = 0; group < old_tags.size(); ++group)
      for (size_t i = 0; i < kGroupSlots; ++i)
        if (old_tags[group].tag[i]) {
          const Slot& slot = old_slots[group * kGroupSlots + i];
          *place(table_hash(slot.id)) = slot;
        }
    ++moves_;
  }

  size_t groups_ = 0;
  size_t size_ = 0;
  uint32_t moves_ = 0;
  std::vector<Group> tags_;
  std::unique_ptr<Slot[]> slots_;
};

}  // namespace millpond::master
