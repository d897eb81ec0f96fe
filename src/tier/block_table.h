// Every block of a tier: dense records, found by id.
// At most one readable block and one that is being written share an id. Not synchronised. Records do not move.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <deque>
#include <vector>

#include "base/block_id.h"
#include "base/time.h"
#include "tier/eviction.h"
#include "tier/space.h"

namespace millpond::tier {

enum class BlockState : uint8_t {
  free,
  reserved,      // being written; found by writer_of()
  doomed,        // being written, but its id was removed meanwhile: cannot commit
  committed,
  condemned,     // evicted, readable until its memory is needed
};

struct Block {
  BlockId id;
  BlockId parent;
  uint64_t length = 0;
  uint64_t root = 0;
  uint64_t generation = 0;               // of the slot; another one with each use
  Place place;
  uint64_t protected_bytes = 0;          // what it takes of the protection's budget; 0: not in its list
  Time protected_until;
  uint32_t namespace_generation = 0;
  uint32_t protected_next = kNoSlot.value, protected_previous = kNoSlot.value;
  uint16_t key_bytes = 0;
  BlockState state = BlockState::free;
};

class BlockTable {
 public:
  explicit BlockTable(size_t expected) { readable_.reserve(expected); }

  SlotIndex add();                                    // a free record
  void remove(SlotIndex slot);                        // REQUIRES: not found by id any more
  Block& at(SlotIndex slot) { return blocks_[slot.value]; }
  const Block& at(SlotIndex slot) const { return blocks_[slot.value]; }
  size_t slots() const { return blocks_.size(); }     // all indices are below

  SlotIndex find(const BlockId& id) const { return find_in(readable_, id); }           // committed or condemned; else kNoSlot
  SlotIndex writer_of(const BlockId& id) const { return find_in(writers_, id); }       // reserved; else kNoSlot
  void set_readable(SlotIndex slot) { readable_.insert_or_assign(at(slot).id, slot.value); }
  void erase_readable(SlotIndex slot);                // only if the id stands for this slot
  void set_writer(SlotIndex slot) { writers_.insert_or_assign(at(slot).id, slot.value); }
  void erase_writer(SlotIndex slot);

 private:
  using Map = boost::unordered_flat_map<BlockId, uint32_t, BlockIdHash>;
  static SlotIndex find_in(const Map& map, const BlockId& id) {
    auto found = map.find(id);
    return found == map.end() ? kNoSlot : SlotIndex(found->second);
  }
  static void erase_in(Map& map, const BlockId& id, SlotIndex slot) {
    auto found = map.find(id);
    if (found != map.end() && found->second == slot.value) map.erase(found);
  }
  std::deque<Block> blocks_;
  std::vector<uint32_t> free_;
  Map readable_;
  Map writers_;
};

inline SlotIndex BlockTable::add() {
  if (free_.empty()) {
    blocks_.emplace_back();
    return SlotIndex(uint32_t(blocks_.size() - 1));
  }
  SlotIndex slot(free_.back());
  free_.pop_back();
  return slot;
}

inline void BlockTable::remove(SlotIndex slot) {
  at(slot) = Block{};
  free_.push_back(slot.value);
}

inline void BlockTable::erase_readable(SlotIndex slot) { erase_in(readable_, at(slot).id, slot); }
inline void BlockTable::erase_writer(SlotIndex slot) { erase_in(writers_, at(slot).id, slot); }

}  // namespace millpond::tier
