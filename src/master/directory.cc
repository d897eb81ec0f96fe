#include "master/directory.h"

#include <algorithm>

#include "base/check.h"
#include "base/reached.h"
#include "wire/limits.h"

namespace millpond::master {
namespace {
// Probes in flight: enough to hide memory latency, few enough that the tags of the first are still in L1 for the last.
constexpr size_t kBatch = 32;
// Marks are bytes. Void ones must be erased before a mark comes round again; a node that joins so often that the slices
// cannot follow pays for one whole sweep.
constexpr uint8_t kRoundsUnsweptMax = 250;
}  // namespace

Directory::Directory() : shards_(kShards), pool_(1), nodes_(65536), counts_(65536) {}

// ---- Nodes ----

void Directory::set_standing(NodeIndex node, Standing standing) {
  NodeMarks& marks = nodes_[node.value];
  if (marks.standing == uint8_t(standing)) return;
  MP_CHECK(marks.standing != uint8_t(Standing::gone) || counts_[node.value].voided == 0,
           "node index {} was given away before it was swept", node.value);
  marks.standing = uint8_t(standing);
  if (standing == Standing::gone) {
    NodeCounts& counts = counts_[node.value];
    counts.voided += counts.current + counts.older;
    counts.current = counts.older = 0;
    want_sweep(node);
  }
}

uint32_t Directory::begin_round(NodeIndex node) {
  NodeMarks& marks = nodes_[node.value];
  NodeCounts& counts = counts_[node.value];
  if (counts.voided == 0) marks.rounds_since_sweep = uint8_t(marks.round - marks.floor);
  if (marks.rounds_since_sweep >= kRoundsUnsweptMax) {
    MP_REACHED("round marks came round");
    marks.floor = marks.round;             // of 250 rounds none was completed: what only the first ones named is void
    counts.voided += counts.older;
    counts.older = 0;
    void_everything_now(node);
    marks.rounds_since_sweep = 0;
  }
  ++marks.round;
  ++marks.rounds_since_sweep;
  counts.older += counts.current;
  counts.current = 0;
  return ++counts.round;
}

void Directory::complete_round(NodeIndex node) {
  NodeMarks& marks = nodes_[node.value];
  NodeCounts& counts = counts_[node.value];
  if (marks.floor == marks.round) return;
  marks.floor = marks.round;
  if (counts.older) {
    MP_REACHED("inventory voided what it did not name");
    counts.voided += counts.older;
    counts.older = 0;
    want_sweep(node);
  }
}

bool Directory::swept(NodeIndex node) const {
  const NodeCounts& counts = counts_[node.value];
  return nodes_[node.value].standing == uint8_t(Standing::gone) && counts.voided == 0;
}

void Directory::reset(NodeIndex node) {
  MP_CHECK(swept(node), "node index {} still has {} replicas", node.value, counts_[node.value].voided);
  nodes_[node.value] = NodeMarks{};
  counts_[node.value] = NodeCounts{};
}

uint64_t Directory::replicas(NodeIndex node) const { return counts_[node.value].current + counts_[node.value].older; }

// ---- Replica lists ----

void Directory::append(Entry& entry, Replica replica) {
  if (entry.first.node == kNoNode.value) {
    entry.first = replica;
    return;
  }
  uint32_t link = pool_free_;
  if (link) {
    pool_free_ = pool_[link].next;
  } else {
    link = uint32_t(pool_.size());
    pool_.emplace_back();
  }
  pool_[link] = {replica, 0};
  uint32_t* tail = &entry.more;            // the order is who came first: `first` stays with the eldest
  while (*tail) tail = &pool_[*tail].next;
  *tail = link;
}

void Directory::count_out(const Replica& replica) {
  NodeCounts& counts = counts_[replica.node];
  if (!this->counts(replica)) {
    --counts.voided;
  } else if (replica.mark == nodes_[replica.node].round) {
    --counts.current;
  } else {
    --counts.older;
  }
}

template <typename Gone>
void Directory::drop_if(Entry& entry, Gone gone) {
  for (uint32_t* at = &entry.more; *at;) {
    Link& link = pool_[*at];
    if (!gone(link.replica)) {
      at = &link.next;
      continue;
    }
    count_out(link.replica);
    uint32_t freed = *at;
    *at = link.next;
    pool_[freed].next = pool_free_;
    pool_free_ = freed;
  }
  if (entry.first.node == kNoNode.value || !gone(entry.first)) return;
  count_out(entry.first);
  entry.first = Replica{};
  if (uint32_t next = entry.more) {
    entry.first = pool_[next].replica;
    entry.more = pool_[next].next;
    pool_[next].next = pool_free_;
    pool_free_ = next;
  }
}

// ---- The stream ----

AdvertAnswer Directory::add(NodeIndex node, const AdvertItem& item, uint64_t hash, AdvertOutcome& outcome) {
  if (item.length == 0 || item.length > wire::kBlockBytesMax) {
    MP_REACHED("advert of an impossible length");
    return AdvertAnswer::refused;
  }
  auto [entry, made] = shard(hash).insert(item.id, hash);
  blocks_ += made;
  if (!made) drop_if(*entry, [&](const Replica& r) { return !counts(r); });   // void ones are in nobody's way

  bool same_bytes = entry->length == item.length && entry->root == item.root;
  bool others_live = false, own = false;
  auto see = [&](const Replica& r) {
    if (r.node == node.value) {
      own = true;
    } else if (live(r)) {
      others_live = true;
    }
  };
  if (entry->first.node != kNoNode.value) see(entry->first);
  for (uint32_t at = entry->more; at; at = pool_[at].next) see(pool_[at].replica);

  if (!same_bytes) {
    if (others_live) {
      // Whatever this node said before, it now holds other bytes: it counts no longer.
      if (own) drop_if(*entry, [&](const Replica& r) { return r.node == node.value; });
      return AdvertAnswer::refused;
    }
    // Nobody alive holds the old bytes. A dead node that does may come back: not before it has told us everything again.
    drop_if(*entry, [&](const Replica& r) {
      if (r.node != node.value) {
        MP_REACHED("dead node held other bytes than the new first");
        outcome.must_rejoin.push_back(NodeIndex(r.node));
      }
      return true;
    });
    own = false;
    entry->root = item.root;
    entry->length = item.length;
  }

  Replica replica{node.value, item.tier, nodes_[node.value].round};
  NodeCounts& counts = counts_[node.value];
  if (own) {
    auto renew = [&](Replica& r) {
      if (r.node != node.value) return;
      if (r.mark != replica.mark) --counts.older, ++counts.current;
      r = replica;
    };
    renew(entry->first);
    for (uint32_t at = entry->more; at; at = pool_[at].next) renew(pool_[at].replica);
  } else {
    append(*entry, replica);
    ++counts.current;
  }
  if (!others_live) return AdvertAnswer::first;
  // Of several that live, the eldest is the first.
  if (live(entry->first)) return entry->first.node == node.value ? AdvertAnswer::first : AdvertAnswer::replica;
  for (uint32_t at = entry->more; at; at = pool_[at].next)
    if (live(pool_[at].replica)) return pool_[at].replica.node == node.value ? AdvertAnswer::first : AdvertAnswer::replica;
  return AdvertAnswer::first;
}

// True if this took the last replica that counted.
bool Directory::leave(NodeIndex node, const BlockId& id, uint64_t hash) {
  Entry* entry = shard(hash).find(id, hash);
  if (!entry) return false;
  bool was_here = false;
  drop_if(*entry, [&](const Replica& r) {
    bool own = r.node == node.value;
    was_here |= own && counts(r);
    return own || !counts(r);
  });
  if (entry->first.node != kNoNode.value) return false;
  shard(hash).erase(entry);
  --blocks_;
  return was_here;
}

void Directory::advertise(NodeIndex node, std::span<const AdvertItem> items, std::span<const uint8_t> removed,
                          AdvertOutcome& outcome) {
  MP_CHECK(removed.empty() || removed.size() == items.size());
  outcome.answers.clear();
  outcome.answers.reserve(items.size());
  uint64_t hashes[kBatch];
  for (size_t from = 0; from < items.size(); from += kBatch) {
    size_t count = std::min(kBatch, items.size() - from);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = table_hash(items[from + i].id);
      shard(hashes[i]).prefetch_tags(hashes[i]);
    }
    for (size_t i = 0; i < count; ++i) shard(hashes[i]).prefetch_slot(hashes[i]);
    for (size_t i = 0; i < count; ++i) {
      const AdvertItem& item = items[from + i];
      bool arrives = item.kind == AdvertKind::add || item.kind == AdvertKind::inventory;
      if (!arrives) {
        if (leave(node, item.id, hashes[i])) outcome.departed.push_back(uint32_t(from + i));
        outcome.answers.push_back(AdvertAnswer::noted);
      } else if (!removed.empty() && removed[from + i]) {
        MP_REACHED("advert crossed a removal");
        leave(node, item.id, hashes[i]);
        outcome.answers.push_back(AdvertAnswer::removed);
      } else {
        outcome.answers.push_back(add(node, item, hashes[i], outcome));
      }
    }
  }
}

// ---- Lookups ----

// Appends the replicas a reader may be sent to; returns the block's length, 0 if there is none.
uint32_t Directory::found(const Entry& entry, uint32_t block, LookupAnswer& answer) const {
  const Replica& first = entry.first;
  if (!entry.more) {                       // the common case: one replica
    if (!live(first)) return 0;
    answer.replicas.push_back({block, first.node, first.tier, 0});
    return entry.length;
  }
  size_t start = answer.replicas.size();
  for (Standing wanted : {Standing::alive, Standing::suspect}) {
    auto take = [&](const Replica& r) {
      if (nodes_[r.node].standing == uint8_t(wanted) && counts(r) && answer.replicas.size() - start < kReplicasPerAnswer)
        answer.replicas.push_back({block, r.node, r.tier, 0});
    };
    take(first);
    for (uint32_t at = entry.more; at; at = pool_[at].next) take(pool_[at].replica);
  }
  return answer.replicas.size() > start ? entry.length : 0;
}

// Calls visit(position, entry or null) in order until it returns false.
template <typename Visit>
void Directory::probe(std::span<const BlockId> ids, Visit visit) const {
  uint64_t hashes[kBatch];
  // A prefix mostly misses early or not at all: the first batch is small, so that an early miss fetched little.
  for (size_t from = 0, batch = 8; from < ids.size(); from += batch, batch = kBatch) {
    size_t count = std::min(batch, ids.size() - from);
    for (size_t i = 0; i < count; ++i) {
      hashes[i] = table_hash(ids[from + i]);
      shard(hashes[i]).prefetch_tags(hashes[i]);
    }
    for (size_t i = 0; i < count; ++i) shard(hashes[i]).prefetch_slot(hashes[i]);
    for (size_t i = 0; i < count; ++i)
      if (!visit(uint32_t(from + i), shard(hashes[i]).find(ids[from + i], hashes[i]))) return;
  }
}

void Directory::lookup_prefix(std::span<const BlockId> ids, LookupAnswer& answer) const {
  answer = {};
  answer.replicas.reserve(std::min<size_t>(ids.size(), 1024));
  answer.lengths.reserve(std::min<size_t>(ids.size(), 1024));
  probe(ids, [&](uint32_t block, const Entry* entry) {
    uint32_t length = entry ? found(*entry, block, answer) : 0;
    if (!length) return false;
    answer.lengths.push_back(length);
    ++answer.matched;
    return true;
  });
}

void Directory::lookup_each(std::span<const BlockId> ids, LookupAnswer& answer) const {
  answer = {};
  answer.replicas.reserve(ids.size());
  answer.lengths.reserve(ids.size());
  probe(ids, [&](uint32_t block, const Entry* entry) {
    uint32_t length = entry ? found(*entry, block, answer) : 0;
    answer.lengths.push_back(length);
    answer.matched += length != 0;
    return true;
  });
}

std::vector<NodeIndex> Directory::holders(const BlockId& id) const {
  std::vector<NodeIndex> nodes;
  uint64_t hash = table_hash(id);
  const Entry* entry = shard(hash).find(id, hash);
  if (!entry) return nodes;
  if (counts(entry->first)) nodes.push_back(NodeIndex(entry->first.node));
  for (uint32_t at = entry->more; at; at = pool_[at].next)
    if (counts(pool_[at].replica)) nodes.push_back(NodeIndex(pool_[at].replica.node));
  return nodes;
}

bool Directory::remove(const BlockId& id) {
  uint64_t hash = table_hash(id);
  Entry* entry = shard(hash).find(id, hash);
  if (!entry) return false;
  bool counted = false;
  drop_if(*entry, [&](const Replica& r) {
    counted |= counts(r);
    return true;
  });
  shard(hash).erase(entry);
  --blocks_;
  return counted;
}

// ---- Sweeping ----

// What became void behind the cursor is met in the next pass: two from now, everything void today is erased.
void Directory::want_sweep(NodeIndex node) {
  NodeCounts& counts = counts_[node.value];
  if (!counts.voided) return;
  counts.swept_at_pass = passes_ + 2;
  passes_wanted_ = std::max(passes_wanted_, counts.swept_at_pass);
}

bool Directory::sweep(size_t slots_max, const std::function<void(const BlockId&, NodeIndex)>& lost) {
  for (size_t walked = 0; passes_ < passes_wanted_ && walked < slots_max;) {
    Table& table = shards_[sweep_shard_];
    if (sweep_moves_ != table.moves()) {   // it grew under the cursor: once more from its start
      sweep_moves_ = table.moves();
      sweep_group_ = 0;
    }
    if (sweep_group_ >= table.groups()) {
      sweep_group_ = 0;
      if (++sweep_shard_ == kShards) {
        sweep_shard_ = 0;
        ++passes_;
      }
      sweep_moves_ = shards_[sweep_shard_].moves();
      ++walked;
      continue;
    }
    table.sweep_group(sweep_group_++, [&](Entry& entry) {
      NodeIndex last{entry.first.node};
      drop_if(entry, [&](const Replica& r) { return !counts(r); });
      if (entry.first.node != kNoNode.value) return false;
      --blocks_;
      if (lost) lost(entry.id, last);
      return true;
    });
    walked += Table::kGroupSlots;
  }
  return passes_ < passes_wanted_;
}

void Directory::void_everything_now(NodeIndex node) {
  want_sweep(node);
  while (sweep(1 << 20, nullptr)) {}
}

void Directory::for_each_replica(const std::function<void(const BlockId&, NodeIndex, uint64_t, uint32_t)>& visit) const {
  for (auto& table : shards_)
    table.for_each([&](const Entry& entry) {
      if (counts(entry.first)) visit(entry.id, NodeIndex(entry.first.node), entry.root, entry.length);
      for (uint32_t at = entry.more; at; at = pool_[at].next)
        if (counts(pool_[at].replica)) visit(entry.id, NodeIndex(pool_[at].replica.node), entry.root, entry.length);
    });
}

size_t Directory::bytes() const {
  size_t sum = pool_.capacity() * sizeof(Link) + nodes_.size() * sizeof(NodeMarks) + counts_.size() * sizeof(NodeCounts);
  for (auto& table : shards_) sum += table.bytes();
  return sum;
}

}  // namespace millpond::master
