// Which block is on which nodes. Soft state: every entry was said by a node, and is void as soon as that node's word no
// longer counts (a new epoch, a finished inventory round that did not name it). Nothing is erased when a node dies:
// replicas are judged when they are met, by two bytes of node state and a round mark, so death and return are O(1);
// void replicas are swept in slices.
//
// Lives on: one thread. Limits: block length 1 … 2 GiB, 65,535 node indices, 4 billion extra replicas.
// Memory: 48-byte slots in 256 flat tables that grow by a quarter, 8 bytes for each replica beyond a block's first.
// Design: docs/design/master.md.
#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/block_id.h"
#include "base/id.h"
#include "master/flat_table.h"

namespace millpond::master {

inline constexpr NodeIndex kNoNode{0xFFFF};

// What the directory must know of a node. `gone`: all its replicas are void (never seen, new epoch, swept).
enum class Standing : uint8_t { alive, suspect, dead, gone };

enum class AdvertKind : uint8_t { add, inventory, evict, drop };                   // = wire::AdvertKind
enum class AdvertAnswer : uint8_t { first, replica, refused, removed, noted };     // = wire::AdvertAnswer

struct AdvertItem {            // = wire::Advert
  BlockId id;
  uint64_t root = 0;
  uint32_t length = 0;         // bytes
  AdvertKind kind = AdvertKind::add;
  uint8_t tier = 0;
  uint16_t reason = 0;         // of a drop; see trace.h
};
static_assert(sizeof(AdvertItem) == 40);

struct AdvertOutcome {
  std::vector<AdvertAnswer> answers;       // one per item
  std::vector<uint32_t> departed;          // items whose evict or drop took the last replica that counted
  std::vector<NodeIndex> must_rejoin;      // dead nodes that held other bytes than a new `first`
};

struct FoundReplica {          // = wire::Replica
  uint32_t block = 0;          // position in the request
  uint16_t node = 0;
  uint8_t tier = 0;
  uint8_t zero = 0;
};
static_assert(sizeof(FoundReplica) == 8);

struct LookupAnswer {
  uint32_t matched = 0;                    // prefix: leading ids found; each: how many in all
  std::vector<FoundReplica> replicas;      // by block; alive before suspect; at most 4 for one block
  std::vector<uint32_t> lengths;           // prefix: `matched` of them; each: one per id, 0 = not found
};

class Directory {
 public:
  static constexpr size_t kReplicasPerAnswer = 4;

  Directory();

  // ---- Nodes ----
  void set_standing(NodeIndex node, Standing standing);
  Standing standing(NodeIndex node) const { return Standing(nodes_[node.value].standing); }
  // A new stream of this node: what it says from now on belongs to the next round. Earlier replicas count until
  // complete_round(). Returns the round's number.
  uint32_t begin_round(NodeIndex node);
  // The inventory of this round is complete: replicas it did not name are void. O(1).
  void complete_round(NodeIndex node);
  // Nothing of this node is left in the tables: its index may be given to another.
  // REQUIRES (for true to become possible): standing gone.
  bool swept(NodeIndex node) const;
  // The index belongs to a new (node, epoch). REQUIRES: swept(node).
  void reset(NodeIndex node);
  uint64_t replicas(NodeIndex node) const;                // that count, were it alive

  // ---- Blocks ----
  // Applies one batch of a node's stream in order. `removed`: empty, or one flag per item: this id was removed after
  // the node read the item. A length of 0 or beyond 2 GiB is `refused`.
  void advertise(NodeIndex node, std::span<const AdvertItem> items, std::span<const uint8_t> removed, AdvertOutcome& outcome);

  void lookup_prefix(std::span<const BlockId> ids, LookupAnswer& answer) const;   // the longest prefix that live nodes hold
  void lookup_each(std::span<const BlockId> ids, LookupAnswer& answer) const;
  std::vector<NodeIndex> holders(const BlockId& id) const;                        // whose replicas count, dead nodes too

  bool remove(const BlockId& id);                         // from all nodes; true if one that counted was here

  // Erases void replicas, walking at most `slots_max` slots. `lost` is told of each id that vanishes with its last
  // replica, and whose that was. Returns true while there is more to do.
  bool sweep(size_t slots_max, const std::function<void(const BlockId&, NodeIndex)>& lost);

  // Every replica that counts, dead nodes' too.
  void for_each_replica(const std::function<void(const BlockId&, NodeIndex, uint64_t root, uint32_t length)>& visit) const;

  size_t blocks() const { return blocks_; }               // entries, those with only void replicas too
  size_t bytes() const;                                   // of tables and pool

 private:
  static constexpr size_t kShards = 256;

  struct Replica {
    uint16_t node = kNoNode.value;
    uint8_t tier = 0;
    uint8_t mark = 0;                      // low byte of the round in which the node last named it
  };
  struct Entry {
    BlockId id;
    uint64_t root = 0;
    uint32_t length = 0;
    Replica first;                         // node kNoNode only while an entry is being made
    uint32_t more = 0;                     // in pool_; 0: none
    uint32_t spare = 0;
  };
  static_assert(sizeof(Entry) == 48);
  struct Link {
    Replica replica;
    uint32_t next = 0;
  };
  struct NodeMarks {
    uint8_t standing = uint8_t(Standing::gone);
    uint8_t floor = 0;                     // the oldest mark that counts
    uint8_t round = 0;                     // the newest
    uint8_t rounds_since_sweep = 0;
  };
  struct NodeCounts {
    uint64_t current = 0;                  // replicas with the mark of this round
    uint64_t older = 0;                    // of earlier rounds, still counting
    uint64_t voided = 0;
    uint32_t round = 0;
    uint64_t swept_at_pass = 0;            // everything that is void now is erased when passes_ has come here
  };
  using Table = FlatTable<Entry>;

  Table& shard(uint64_t hash) { return shards_[hash >> 8 & (kShards - 1)]; }
  const Table& shard(uint64_t hash) const { return shards_[hash >> 8 & (kShards - 1)]; }
  bool counts(const Replica& replica) const {             // not void
    const NodeMarks& marks = nodes_[replica.node];
    return marks.standing != uint8_t(Standing::gone) && uint8_t(replica.mark - marks.floor) <= uint8_t(marks.round - marks.floor);
  }
  bool live(const Replica& replica) const { return nodes_[replica.node].standing <= uint8_t(Standing::suspect) && counts(replica); }

  AdvertAnswer add(NodeIndex node, const AdvertItem& item, uint64_t hash, AdvertOutcome& outcome);
  bool leave(NodeIndex node, const BlockId& id, uint64_t hash);
  void append(Entry& entry, Replica replica);
  template <typename Gone>
  void drop_if(Entry& entry, Gone gone);                  // replicas for which gone(replica) is true
  void count_out(const Replica& replica);
  void void_everything_now(NodeIndex node);
  void want_sweep(NodeIndex node);
  uint32_t found(const Entry& entry, uint32_t block, LookupAnswer& answer) const;
  template <typename Visit>
  void probe(std::span<const BlockId> ids, Visit visit) const;

  std::vector<Table> shards_;
  std::vector<Link> pool_;                                // [0] is unused
  uint32_t pool_free_ = 0;
  std::vector<NodeMarks> nodes_;                          // by index, all 65,536: no bounds to check in the hot loop
  std::vector<NodeCounts> counts_;
  size_t blocks_ = 0;

  uint64_t passes_ = 0;                                   // finished walks over all shards
  uint64_t passes_wanted_ = 0;
  size_t sweep_shard_ = 0;
  size_t sweep_group_ = 0;
  uint32_t sweep_moves_ = 0;
};

}  // namespace millpond::master
