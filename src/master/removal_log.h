// The removals there were: the one thing of the master that is not soft. Each gets a number; the last `kept` are kept,
// and nodes keep them too, so that a new master starts from the nodes' tails.
//
// Numbers are (term << 20) + n: a later master's are larger without knowing the earlier ones. Within one term the order
// is total: who stands at a number of that term has applied every smaller number of it. Across terms it is not: a node
// that was cut off may carry removals the others never saw, or lack such. merge() finds both and issues them again: at
// worst a block stored again since is lost, never one resurrected.
//
// Lives on: one thread; no clock. Limits: `kept` records, namespaces_max namespaces.
#pragma once
#include <deque>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "base/block_id.h"
#include "base/id.h"
#include "base/status.h"
#include "master/flat_table.h"

namespace millpond::master {

enum class RemovalKind : uint8_t { block, namespace_wiped };   // = wire::RemovalKind

struct RemovalRecord {       // = wire::Removal
  BlockId id;                // of a wipe: only namespace_id counts
  uint64_t number = 0;
  uint32_t generation = 0;   // of a wipe: the generation that now is
  RemovalKind kind = RemovalKind::block;
  uint8_t zero1 = 0;
  uint16_t zero2 = 0;
};
static_assert(sizeof(RemovalRecord) == 40);

class RemovalLog {
 public:
  struct Options {
    MasterTerm term;
    size_t kept = 64 << 10;
    size_t namespaces_max = 64 << 10;
  };
  explicit RemovalLog(Options options);

  uint64_t last() const { return last_; }                  // number of the last removal, 0: none

  void remove(const BlockId& id);
  // Raises the generation above both ours and `floor`. invalid: it cannot rise any more; overloaded: namespaces_max.
  Result<uint32_t> wipe(NamespaceId space, uint32_t floor);
  uint32_t generation(NamespaceId space) const;
  // From a joining node: the maximum counts. A generation above ours becomes a wipe of our own, so that all nodes hear it.
  void learn_generation(NamespaceId space, uint32_t generation);
  std::vector<std::pair<NamespaceId, uint32_t>> generations() const;

  // False: only a later term can have issued this number. (A master that issues more than a million runs into the numbers
  // of the terms after its own; terms are times, so the next master is further on.)
  bool plausible(uint64_t number) const { return number <= last_ || number <= base() + 0xFFFFF; }
  // A joining node's last number and the removals it remembers (a tail shorter than `kept` is taken for all there were:
  // nodes must keep as many as we do). Afterwards last() ≥ node_last, and since(node_last) is what the node has missed.
  // Returns what is news to us or to the node: these ids must leave the directory.
  // REQUIRES: plausible(node_last). Records above node_last are ignored.
  std::vector<RemovalRecord> merge(uint64_t node_last, std::span<const RemovalRecord> tail);

  // Whether everything after `number` is still here.
  bool reaches(uint64_t number) const { return number >= floor_; }
  // The records after `number`, oldest first, at most `max`.
  std::vector<RemovalRecord> since(uint64_t number, size_t max = ~size_t(0)) const;
  // REQUIRES: !reaches(number). The namespaces that had removals beyond our reach; empty: cannot be told, all.
  std::vector<NamespaceId> touched_beyond_reach(uint64_t number) const;

  // True if `id`, or its whole namespace, was removed under a number above `seen`. REQUIRES: reaches(seen).
  bool removed_since(const BlockId& id, uint64_t seen) const;

  // What floor reaches() would have after `more` removals: nodes that stand below would have to drop whole namespaces.
  uint64_t floor_after(size_t more) const;

  size_t size() const { return records_.size(); }
  uint64_t issued_again() const { return issued_again_; }

 private:
  struct LastNumber {
    BlockId id;
    uint64_t number = 0;
  };
  struct Space {
    uint32_t generation = 0;
    uint64_t wiped = 0;      // number of the last wipe
    uint64_t trimmed = 0;    // number of the last removal in it that the log has forgotten
  };
  static uint64_t term_of(uint64_t number) { return number >> 20; }
  uint64_t base() const { return options_.term.value << 20; }   // below all numbers that we issue
  uint64_t next_number() const;
  bool covers(const RemovalRecord& record) const;          // the log holds this or a later removal of the same
  void append(RemovalRecord record);                       // REQUIRES: number > last_
  Space* space(NamespaceId id);                            // null: namespaces_max

  Options options_;
  std::deque<RemovalRecord> records_;                      // by number
  uint64_t last_ = 0;
  uint64_t floor_ = 0;                                     // every removal with a larger number is in records_
  uint64_t unknown_floor_ = 0;                             // of what was up to here we know not even the namespaces
  FlatTable<LastNumber> removed_;                          // id → its last number in records_
  std::unordered_map<NamespaceId, Space> spaces_;
  uint64_t issued_again_ = 0;
};

}  // namespace millpond::master
