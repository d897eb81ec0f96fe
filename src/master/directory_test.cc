// Goal: the directory says what the nodes said, whoever dies, returns, tells its inventory again, or is swept.
// Method: a table for each rule of docs/design/protocol.md; random histories beside a naive model; counted slices.
#include "master/directory.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "base/random.h"

namespace millpond::master {
namespace {

BlockId block(uint64_t n, uint16_t part = 0) { return {.high = n * 7, .low = n, .namespace_id = 1, .part = part}; }
constexpr NodeIndex kA{0}, kB{1}, kC{2};

struct Rig {
  Directory directory;
  AdvertOutcome outcome;

  Rig() {
    for (NodeIndex node : {kA, kB, kC}) {
      directory.set_standing(node, Standing::alive);
      directory.begin_round(node);
    }
  }
  AdvertAnswer say(NodeIndex node, AdvertItem item, bool removed = false) {
    uint8_t flag = removed;
    outcome = {};
    directory.advertise(node, {&item, 1}, {&flag, 1}, outcome);
    return outcome.answers.at(0);
  }
  AdvertAnswer add(NodeIndex node, uint64_t n, uint64_t root = 5, uint32_t length = 100) {
    return say(node, {.id = block(n), .root = root, .length = length, .kind = AdvertKind::add});
  }
  AdvertAnswer evict(NodeIndex node, uint64_t n) { return say(node, {.id = block(n), .kind = AdvertKind::evict}); }
  std::vector<int> nodes(uint64_t n) {
    LookupAnswer answer;
    BlockId id = block(n);
    directory.lookup_prefix({&id, 1}, answer);
    std::vector<int> found;
    for (auto& r : answer.replicas) found.push_back(r.node);
    EXPECT_EQ(answer.matched == 1, !found.empty());
    return found;
  }
  void sweep_all() {
    while (directory.sweep(1000, nullptr)) {}
  }
};
using Nodes = std::vector<int>;

TEST(Directory, the_first_who_says_a_block_is_first_the_next_a_replica) {
  Rig rig;
  EXPECT_EQ(rig.add(kA, 1), AdvertAnswer::first);
  EXPECT_EQ(rig.add(kB, 1), AdvertAnswer::replica);
  EXPECT_EQ(rig.add(kA, 1), AdvertAnswer::first) << "said again: still the eldest";
  EXPECT_EQ(rig.add(kB, 1), AdvertAnswer::replica);
  EXPECT_EQ(rig.nodes(1), (Nodes{0, 1}));
  EXPECT_EQ(rig.directory.replicas(kA), 1u);
  EXPECT_EQ(rig.directory.blocks(), 1u);
}

TEST(Directory, other_bytes_are_refused_while_a_live_node_holds_the_block) {
  Rig rig;
  rig.add(kA, 1, 5);
  EXPECT_EQ(rig.add(kB, 1, 6), AdvertAnswer::refused);
  EXPECT_EQ(rig.add(kB, 1, 5, 99), AdvertAnswer::refused) << "other length";
  rig.directory.set_standing(kA, Standing::suspect);
  EXPECT_EQ(rig.add(kB, 1, 6), AdvertAnswer::refused) << "a suspect may well live";
  EXPECT_EQ(rig.nodes(1), Nodes{0});
}

TEST(Directory, who_was_a_replica_and_now_holds_other_bytes_counts_no_longer) {
  Rig rig;
  rig.add(kA, 1, 5);
  rig.add(kB, 1, 5);
  EXPECT_EQ(rig.add(kB, 1, 6), AdvertAnswer::refused);
  EXPECT_EQ(rig.nodes(1), Nodes{0});
  EXPECT_EQ(rig.directory.replicas(kB), 0u);
}

TEST(Directory, the_only_holder_may_say_other_bytes_later) {
  Rig rig;
  rig.add(kA, 1, 5, 100);
  EXPECT_EQ(rig.add(kA, 1, 6, 200), AdvertAnswer::first);
  EXPECT_EQ(rig.add(kB, 1, 6, 200), AdvertAnswer::replica);
  LookupAnswer answer;
  BlockId id = block(1);
  rig.directory.lookup_each({&id, 1}, answer);
  EXPECT_EQ(answer.lengths, std::vector<uint32_t>{200});
}

TEST(Directory, the_dead_are_skipped_and_come_back) {
  Rig rig;
  rig.add(kA, 1);
  rig.directory.set_standing(kA, Standing::dead);
  EXPECT_TRUE(rig.nodes(1).empty());
  EXPECT_EQ(rig.add(kB, 1), AdvertAnswer::first) << "only replicas of dead nodes";
  rig.directory.set_standing(kA, Standing::alive);
  EXPECT_EQ(rig.nodes(1), (Nodes{0, 1}));
}

TEST(Directory, a_dead_node_with_other_bytes_than_the_new_first_must_join_again) {
  Rig rig;
  rig.add(kA, 1, 5);
  rig.directory.set_standing(kA, Standing::dead);
  EXPECT_EQ(rig.add(kB, 1, 6), AdvertAnswer::first);
  EXPECT_EQ(rig.outcome.must_rejoin, std::vector<NodeIndex>{kA});
  rig.directory.set_standing(kA, Standing::alive);
  EXPECT_EQ(rig.nodes(1), Nodes{1}) << "the dead replica is void";
  EXPECT_EQ(rig.add(kA, 1, 5), AdvertAnswer::refused);
}

TEST(Directory, suspects_are_offered_after_the_others_and_at_most_four) {
  Rig rig;
  for (uint16_t n = 3; n < 10; ++n) rig.directory.set_standing(NodeIndex(n), Standing::alive), rig.directory.begin_round(NodeIndex(n));
  rig.add(kA, 1);
  rig.add(kB, 1);
  rig.directory.set_standing(kA, Standing::suspect);
  EXPECT_EQ(rig.nodes(1), (Nodes{1, 0}));
  for (uint16_t n = 3; n < 10; ++n) rig.add(NodeIndex(n), 1);
  EXPECT_EQ(rig.nodes(1), (Nodes{1, 3, 4, 5}));
}

TEST(Directory, evict_and_drop_are_noted_and_the_last_one_departs) {
  Rig rig;
  rig.add(kA, 1);
  rig.add(kB, 1);
  EXPECT_EQ(rig.evict(kA, 1), AdvertAnswer::noted);
  EXPECT_TRUE(rig.outcome.departed.empty());
  EXPECT_EQ(rig.nodes(1), Nodes{1});
  EXPECT_EQ(rig.add(kA, 1), AdvertAnswer::replica) << "the eldest left: the other is first now";
  rig.evict(kA, 1);
  rig.say(kB, {.id = block(1), .kind = AdvertKind::drop});
  EXPECT_EQ(rig.outcome.departed, std::vector<uint32_t>{0});
  EXPECT_EQ(rig.evict(kC, 77), AdvertAnswer::noted) << "unknown";
  EXPECT_EQ(rig.directory.blocks(), 0u);
}

TEST(Directory, a_removal_that_the_node_had_not_seen_wins) {
  Rig rig;
  EXPECT_EQ(rig.say(kA, {.id = block(1), .root = 5, .length = 100}, true), AdvertAnswer::removed);
  EXPECT_TRUE(rig.nodes(1).empty());
  EXPECT_EQ(rig.say(kA, {.id = block(1), .kind = AdvertKind::evict}, true), AdvertAnswer::noted);
}

TEST(Directory, impossible_lengths_are_refused) {
  Rig rig;
  EXPECT_EQ(rig.add(kA, 1, 5, 0), AdvertAnswer::refused);
  EXPECT_EQ(rig.add(kA, 1, 5, (2u << 30) + 1), AdvertAnswer::refused);
  EXPECT_EQ(rig.add(kA, 1, 5, 2u << 30), AdvertAnswer::first);
  EXPECT_EQ(rig.directory.blocks(), 1u);
}

TEST(Directory, what_a_complete_inventory_does_not_name_is_void) {
  Rig rig;
  rig.add(kA, 1);
  rig.add(kA, 2);
  rig.add(kB, 2);
  EXPECT_EQ(rig.directory.begin_round(kA), 2u);
  EXPECT_EQ(rig.nodes(1), Nodes{0}) << "counts until the round is complete";
  rig.say(kA, {.id = block(2), .root = 5, .length = 100, .kind = AdvertKind::inventory});
  rig.directory.complete_round(kA);
  EXPECT_TRUE(rig.nodes(1).empty());
  EXPECT_EQ(rig.nodes(2), (Nodes{0, 1}));
  EXPECT_EQ(rig.directory.replicas(kA), 1u);
  EXPECT_EQ(rig.add(kB, 1, 9), AdvertAnswer::first) << "only void replicas: other bytes are welcome";
  EXPECT_TRUE(rig.outcome.must_rejoin.empty());
}

TEST(Directory, a_round_begun_anew_voids_nothing_that_was_not_completed) {
  Rig rig;
  rig.add(kA, 1);
  rig.directory.complete_round(kA);
  rig.directory.begin_round(kA);           // broke off
  rig.directory.begin_round(kA);
  EXPECT_EQ(rig.nodes(1), Nodes{0});
  rig.directory.complete_round(kA);
  EXPECT_TRUE(rig.nodes(1).empty());
}

TEST(Directory, round_marks_may_come_round) {
  Rig rig;
  rig.add(kA, 1);
  rig.directory.complete_round(kA);
  rig.add(kB, 2);
  for (int i = 0; i < 1000; ++i) {
    rig.directory.begin_round(kA);
    rig.directory.complete_round(kA);
    ASSERT_TRUE(rig.nodes(1).empty()) << i;
  }
  for (int i = 0; i < 1000; ++i) {         // never completed: the oldest marks end up void
    rig.directory.begin_round(kB);
    rig.add(kB, 3);
    ASSERT_EQ(rig.nodes(3), Nodes{1});
  }
  EXPECT_TRUE(rig.nodes(2).empty());
}

TEST(Directory, a_new_epoch_voids_everything_at_once_and_its_index_is_free_after_the_sweep) {
  Rig rig;
  for (uint64_t n = 0; n < 5000; ++n) rig.add(kA, n);
  rig.add(kB, 0);
  rig.directory.set_standing(kA, Standing::gone);
  EXPECT_FALSE(rig.directory.swept(kA));
  EXPECT_TRUE(rig.nodes(1).empty());
  EXPECT_EQ(rig.nodes(0), Nodes{1});
  rig.sweep_all();
  EXPECT_TRUE(rig.directory.swept(kA));
  EXPECT_EQ(rig.directory.blocks(), 1u);
  rig.directory.reset(kA);
  rig.directory.set_standing(kA, Standing::alive);
  EXPECT_EQ(rig.directory.begin_round(kA), 1u);
  EXPECT_TRUE(rig.nodes(1).empty());
  EXPECT_EQ(rig.directory.replicas(kA), 0u);
}

TEST(Directory, a_million_entries_die_at_once_and_leave_in_slices) {
  Rig rig;
  std::vector<AdvertItem> items;
  AdvertOutcome outcome;
  for (uint64_t n = 0; n < 1'000'000; ++n) {
    items.push_back({.id = block(n), .root = n, .length = 100});
    if (items.size() == 1024) rig.directory.advertise(kA, items, {}, outcome), items.clear();
  }
  rig.directory.advertise(kA, items, {}, outcome);
  rig.add(kB, 2'000'000);
  EXPECT_LE(rig.directory.bytes() / 1e6, 96);
  rig.directory.set_standing(kA, Standing::dead);          // no walk: nothing is erased yet
  EXPECT_EQ(rig.directory.blocks(), 1'000'001u);
  EXPECT_TRUE(rig.nodes(500'000).empty());
  rig.directory.set_standing(kA, Standing::gone);
  size_t slices = 0, lost = 0, most = 0;
  for (bool more = true; more; ++slices) {
    size_t before = rig.directory.blocks();
    more = rig.directory.sweep(10'000, [&](const BlockId&, NodeIndex last) {
      ++lost;
      EXPECT_EQ(last, kA);
    });
    most = std::max(most, before - rig.directory.blocks());
  }
  EXPECT_EQ(lost, 1'000'000u);
  EXPECT_LE(most, 10'000u + FlatTable<LookupAnswer*>::kGroupSlots);
  EXPECT_GE(slices, 100u);
  EXPECT_EQ(rig.directory.blocks(), 1u);
  EXPECT_FALSE(rig.directory.sweep(10'000, nullptr)) << "nothing is void: nothing to walk";
}

TEST(Directory, prefix_stops_at_the_first_gap_and_each_goes_on) {
  Rig rig;
  std::vector<BlockId> ids;
  for (uint64_t n = 0; n < 100; ++n) {
    ids.push_back(block(n));
    if (n != 57) rig.add(n % 2 ? kA : kB, n, 5, uint32_t(n + 1));
  }
  LookupAnswer answer;
  rig.directory.lookup_prefix(ids, answer);
  EXPECT_EQ(answer.matched, 57u);
  EXPECT_EQ(answer.lengths.size(), 57u);
  EXPECT_EQ(answer.replicas.size(), 57u);
  EXPECT_EQ(answer.replicas[56].block, 56u);
  rig.directory.lookup_each(ids, answer);
  EXPECT_EQ(answer.matched, 99u);
  EXPECT_EQ(answer.lengths.size(), 100u);
  EXPECT_EQ(answer.lengths[57], 0u);
  EXPECT_EQ(answer.lengths[99], 100u);
  rig.directory.lookup_prefix({}, answer);
  EXPECT_EQ(answer.matched, 0u);
}

TEST(Directory, ids_with_one_hash_are_told_apart) {
  Rig rig;
  for (uint16_t part = 0; part < 300; ++part)
    rig.say(kA, {.id = {.high = 1, .low = 1, .namespace_id = 1, .part = part}, .root = part, .length = 100});
  EXPECT_EQ(rig.directory.blocks(), 300u);
  LookupAnswer answer;
  BlockId other_space{.high = 1, .low = 1, .namespace_id = 2};
  rig.directory.lookup_each({&other_space, 1}, answer);
  EXPECT_EQ(answer.matched, 0u);
}

// Ids that all want the same group: a long chain of full groups, overflow counts that saturate.
TEST(FlatTable, finds_and_erases_when_all_ids_want_one_group) {
  struct Slot {
    BlockId id;
    uint64_t value = 0;
  };
  std::vector<BlockId> crowd;
  for (uint64_t n = 0; crowd.size() < 1500; ++n)
    if (table_hash(block(n)) >> 53 == 0) crowd.push_back(block(n));
  FlatTable<Slot> table;
  for (size_t i = 0; i < crowd.size(); ++i) table.insert(crowd[i], table_hash(crowd[i])).first->value = i;
  ASSERT_LT(table.groups(), 1u << 11) << "the ids share a group only while there are fewer";
  for (size_t i = 0; i < crowd.size(); i += 2) table.erase(table.find(crowd[i], table_hash(crowd[i])));
  for (size_t i = 0; i < crowd.size(); ++i) {
    Slot* slot = table.find(crowd[i], table_hash(crowd[i]));
    ASSERT_EQ(slot != nullptr, i % 2 == 1) << i;
    if (slot) {
      EXPECT_EQ(slot->value, i);
    }
  }
  for (size_t i = 0; i < crowd.size(); i += 2) EXPECT_TRUE(table.insert(crowd[i], table_hash(crowd[i])).second);
  EXPECT_EQ(table.size(), crowd.size());
  size_t seen = 0;
  for (size_t group = 0; group < table.groups(); ++group) table.sweep_group(group, [&](Slot&) { return ++seen, true; });
  EXPECT_EQ(seen, crowd.size());
  EXPECT_EQ(table.size(), 0u);
  EXPECT_EQ(table.find(crowd[0], table_hash(crowd[0])), nullptr);
}

TEST(FlatTable, lives_under_constant_eviction_without_growing) {
  struct Slot {
    BlockId id;
    uint64_t value = 0;
  };
  FlatTable<Slot> table;
  for (uint64_t n = 0; n < 10'000; ++n) table.insert(block(n), table_hash(block(n)));
  size_t bytes = table.bytes();
  for (uint64_t n = 10'000; n < 500'000; ++n) {
    uint64_t gone = n - 10'000;
    table.erase(table.find(block(gone), table_hash(block(gone))));
    table.insert(block(n), table_hash(block(n)));
    if (n % 1000 == 0) {
      EXPECT_EQ(table.find(block(gone), table_hash(block(gone))), nullptr);
    }
  }
  EXPECT_EQ(table.size(), 10'000u);
  EXPECT_EQ(table.bytes(), bytes);
}

// The naive model: for each id who says what, in order of arrival; states as in the protocol's table.
struct Model {
  struct Holder {
    int node;
    uint64_t root;
    int round;
    bool operator==(const Holder&) const = default;
  };
  std::map<uint64_t, std::vector<Holder>> blocks;
  std::map<int, Standing> standing;
  std::map<int, int> round, floor;

  bool counts(const Holder& h) { return standing[h.node] != Standing::gone && h.round >= floor[h.node]; }
  bool live(const Holder& h) { return counts(h) && standing[h.node] <= Standing::suspect; }
  void prune(uint64_t n) {
    std::erase_if(blocks[n], [&](auto& h) { return !counts(h); });
  }
  AdvertAnswer add(int node, uint64_t n, uint64_t root, std::set<int>& rejoin) {
    prune(n);
    auto& list = blocks[n];
    uint64_t here = list.empty() ? 0 : list[0].root;       // all that count hold the same bytes
    bool others = std::any_of(list.begin(), list.end(), [&](auto& h) { return h.node != node && live(h); });
    if (!list.empty() && here != root) {
      if (others) {
        std::erase_if(list, [&](auto& h) { return h.node == node; });
        return AdvertAnswer::refused;
      }
      for (auto& h : list)
        if (h.node != node) rejoin.insert(h.node);
      list.clear();
    }
    auto own = std::find_if(list.begin(), list.end(), [&](auto& h) { return h.node == node; });
    if (own != list.end())
      own->round = round[node];
    else
      list.push_back({node, root, round[node]});
    for (auto& h : list)
      if (live(h)) return h.node == node ? AdvertAnswer::first : AdvertAnswer::replica;
    return AdvertAnswer::first;
  }
};

TEST(Directory, agrees_with_a_naive_model_over_random_histories) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    Directory directory;
    Model model;
    const int kNodes = 6;
    const uint64_t kBlocks = 60;
    std::set<int> awaiting;                // gone, not yet swept
    auto arrive = [&](int node) {
      directory.set_standing(NodeIndex(uint16_t(node)), Standing::alive);
      directory.begin_round(NodeIndex(uint16_t(node)));
      model.standing[node] = Standing::alive;
      ++model.round[node];
      model.floor[node] = model.round[node];
    };
    for (int node = 0; node < kNodes; ++node) arrive(node);
    for (int step = 0; step < 6000; ++step) {
      int node = int(random.below(kNodes));
      NodeIndex index{uint16_t(node)};
      uint64_t n = random.below(kBlocks);
      switch (random.below(14)) {
        default: {                         // the node's stream
          if (model.standing[node] > Standing::suspect) break;
          uint64_t root = 1 + (random.chance(0.1) ? 1 : 0);
          AdvertItem item{.id = block(n), .root = root, .length = 10, .kind = random.chance(0.5) ? AdvertKind::add : AdvertKind::inventory};
          if (random.chance(0.3)) {
            item.kind = random.chance(0.5) ? AdvertKind::evict : AdvertKind::drop;
            AdvertOutcome outcome;
            directory.advertise(index, {&item, 1}, {}, outcome);
            model.prune(n);
            std::erase_if(model.blocks[n], [&](auto& h) { return h.node == node; });
            break;
          }
          AdvertOutcome outcome;
          directory.advertise(index, {&item, 1}, {}, outcome);
          std::set<int> rejoin, told;
          ASSERT_EQ(outcome.answers[0], model.add(node, n, root, rejoin)) << "seed " << seed << " step " << step;
          for (auto other : outcome.must_rejoin) told.insert(other.value);
          ASSERT_EQ(told, rejoin) << "seed " << seed << " step " << step;
          break;
        }
        case 8: {
          if (model.standing[node] == Standing::gone) break;
          Standing to = Standing(random.below(3));
          directory.set_standing(index, to);
          model.standing[node] = to;
          break;
        }
        case 9:
          if (model.standing[node] == Standing::gone) break;
          directory.begin_round(index);
          ++model.round[node];
          break;
        case 10:
          if (model.standing[node] == Standing::gone) break;
          directory.complete_round(index);
          model.floor[node] = model.round[node];
          break;
        case 11:
          if (random.chance(0.8) || model.standing[node] == Standing::gone) break;
          directory.set_standing(index, Standing::gone);
          model.standing[node] = Standing::gone;
          awaiting.insert(node);
          break;
        case 12: {
          model.prune(n);
          ASSERT_EQ(directory.remove(block(n)), !model.blocks[n].empty()) << "seed " << seed << " step " << step;
          model.blocks[n].clear();
          break;
        }
        case 13:
          directory.sweep(random.below(300), nullptr);
          for (auto at = awaiting.begin(); at != awaiting.end();) {
            NodeIndex gone{uint16_t(*at)};
            if (!directory.swept(gone)) {
              ++at;
              continue;
            }
            directory.reset(gone);
            for (auto& [key, list] : model.blocks) std::erase_if(list, [&](auto& h) { return h.node == *at; });
            arrive(*at);
            at = awaiting.erase(at);
          }
          break;
      }
      if (step % 50) continue;
      std::map<int, uint64_t> replicas;
      for (uint64_t b = 0; b < kBlocks; ++b) {
        model.prune(b);
        std::vector<uint16_t> expected, got;
        for (Standing wanted : {Standing::alive, Standing::suspect})
          for (auto& h : model.blocks[b])
            if (model.standing[h.node] == wanted && expected.size() < 4) expected.push_back(uint16_t(h.node));
        for (auto& h : model.blocks[b]) ++replicas[h.node];
        LookupAnswer answer;
        BlockId id = block(b);
        directory.lookup_each({&id, 1}, answer);
        for (auto& r : answer.replicas) got.push_back(r.node);
        ASSERT_EQ(got, expected) << "seed " << seed << " step " << step << " block " << b;
        ASSERT_EQ(directory.holders(id).size(), model.blocks[b].size());
      }
      size_t visited = 0, expected = 0;
      directory.for_each_replica([&](auto&, auto, auto, auto) { ++visited; });
      for (int m = 0; m < kNodes; ++m) {
        expected += replicas[m];
        ASSERT_EQ(directory.replicas(NodeIndex(uint16_t(m))), replicas[m]) << "seed " << seed << " step " << step;
      }
      ASSERT_EQ(visited, expected);
    }
  }
}

}  // namespace
}  // namespace millpond::master
