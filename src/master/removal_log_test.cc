// Goal: removed means gone, also after masters changed and nodes were cut off; nothing is dropped that need not be.
// Method: nodes are (last number, tail) pairs that apply what they are given; whole stories are played through.
#include "master/removal_log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"

namespace millpond::master {
namespace {

BlockId block(uint64_t n, uint32_t space = 1) { return {.high = n, .low = n, .namespace_id = space}; }
RemovalLog log_of(uint64_t term, size_t kept = 1000) { return RemovalLog({.term = MasterTerm(term), .kept = kept}); }

// A node as the protocol has it.
struct Node {
  uint64_t last = 0;
  std::vector<RemovalRecord> tail;
  std::set<uint64_t> blocks;
  size_t kept = 1000;
  bool dropped_all = false;

  void apply(const std::vector<RemovalRecord>& records) {
    for (auto& r : records) {
      if (r.number <= last) continue;
      last = r.number;
      tail.push_back(r);
      blocks.erase(r.id.low);
    }
    while (tail.size() > kept) tail.erase(tail.begin());
  }
  void join(RemovalLog& log) {
    uint64_t stood = last;
    log.merge(last, tail);
    if (!log.reaches(stood)) {
      dropped_all = true;
      blocks.clear();
      tail.clear();
      last = 0;
      apply(log.since(0));
      return;
    }
    apply(log.since(stood));
  }
};

TEST(RemovalLog, numbers_are_term_and_count) {
  auto log = log_of(7);
  EXPECT_EQ(log.last(), 0u);
  log.remove(block(1));
  log.remove(block(2));
  EXPECT_EQ(log.last(), (7ull << 20) + 2);
  EXPECT_EQ(log.since(0).size(), 2u);
  EXPECT_EQ(log.since((7ull << 20) + 1).size(), 1u);
  EXPECT_EQ(log.since(0, 1).front().id, block(1));
}

TEST(RemovalLog, knows_what_was_removed_since) {
  auto log = log_of(1);
  log.remove(block(1));
  uint64_t seen = log.last();
  log.remove(block(2));
  EXPECT_FALSE(log.removed_since(block(1), seen));
  EXPECT_TRUE(log.removed_since(block(2), seen));
  EXPECT_TRUE(log.removed_since(block(1), 0));
  ASSERT_TRUE(log.wipe(NamespaceId(1), 0).has_value());
  EXPECT_TRUE(log.removed_since(block(99), seen));
  EXPECT_FALSE(log.removed_since(block(99, 2), seen));
  EXPECT_FALSE(log.removed_since(block(99), log.last()));
}

TEST(RemovalLog, a_wipe_raises_the_generation_above_ours_and_the_callers) {
  auto log = log_of(1);
  EXPECT_EQ(*log.wipe(NamespaceId(1), 0), 1u);
  EXPECT_EQ(*log.wipe(NamespaceId(1), 9), 10u);
  EXPECT_EQ(*log.wipe(NamespaceId(1), 3), 11u);
  EXPECT_EQ(log.generation(NamespaceId(1)), 11u);
  EXPECT_EQ(log.generation(NamespaceId(2)), 0u);
  EXPECT_EQ(log.wipe(NamespaceId(2), ~0u).error().code(), Code::invalid);
  auto last = log.since(0).back();
  EXPECT_EQ(last.kind, RemovalKind::namespace_wiped);
  EXPECT_EQ(last.generation, 11u);
  log.learn_generation(NamespaceId(1), 5);
  EXPECT_EQ(log.since(0).size(), 3u) << "no news";
  log.learn_generation(NamespaceId(1), 12);
  EXPECT_EQ(log.since(0).size(), 4u) << "the other nodes must hear it";
}

TEST(RemovalLog, is_bounded_and_says_how_far_it_reaches) {
  auto log = log_of(1, 10);
  for (uint64_t n = 1; n <= 10; ++n) log.remove(block(n));
  EXPECT_TRUE(log.reaches(0));
  EXPECT_EQ(log.floor_after(0), 0u);
  EXPECT_EQ(log.floor_after(3), (1ull << 20) + 3);
  EXPECT_EQ(log.floor_after(50), log.last());
  log.remove(block(11, 2));
  EXPECT_EQ(log.size(), 10u);
  EXPECT_FALSE(log.reaches(0));
  EXPECT_TRUE(log.reaches((1ull << 20) + 1));
  EXPECT_EQ(log.touched_beyond_reach(0), std::vector<NamespaceId>{NamespaceId(1)}) << "namespace 2 lost nothing";
  EXPECT_FALSE(log.removed_since(block(1), log.last() - 1));
}

TEST(RemovalLog, a_new_master_starts_from_the_nodes_tails) {
  Node a, b;
  {
    auto first = log_of(1);
    a.join(first), b.join(first);
    first.remove(block(1));
    a.apply(first.since(a.last));
    b.apply(first.since(b.last));
    first.remove(block(2));
    a.apply(first.since(a.last));          // b missed this one
  }
  b.blocks = {2, 3};
  auto second = log_of(2);
  b.join(second);
  EXPECT_EQ(second.last(), b.last);
  a.join(second);
  EXPECT_EQ(second.last(), a.last);
  EXPECT_EQ(second.issued_again(), 0u) << "nothing unknown: nothing again";
  b.apply(second.since(b.last));
  EXPECT_EQ(b.blocks, std::set<uint64_t>{3});
  EXPECT_FALSE(a.dropped_all || b.dropped_all);
  second.remove(block(5));
  EXPECT_EQ(second.last(), (2ull << 20) + 1);
}

// A node that never heard of any removal keeps its cache when a master restarts right after the first ones.
TEST(RemovalLog, a_short_tail_is_all_there_was) {
  Node a, b;
  auto first = log_of(1);
  first.remove(block(1));
  a.apply(first.since(0));
  b.blocks = {1, 2};
  auto second = log_of(2);
  a.join(second);
  b.join(second);
  EXPECT_FALSE(b.dropped_all);
  EXPECT_EQ(b.blocks, std::set<uint64_t>{2});
}

// X was cut off from the rest under an earlier master, which told only X of a removal. Later masters did not know of it.
TEST(RemovalLog, removals_only_one_node_knew_are_issued_again) {
  Node x, a;
  {
    auto first = log_of(1);
    x.join(first), a.join(first);
    first.remove(block(7));
    x.apply(first.since(x.last));
  }
  a.blocks = {7, 8};
  auto second = log_of(2);
  a.join(second);
  second.remove(block(9));
  a.apply(second.since(a.last));
  EXPECT_EQ(a.blocks, (std::set<uint64_t>{7, 8}));
  x.join(second);
  EXPECT_EQ(second.issued_again(), 1u);
  a.apply(second.since(a.last));
  EXPECT_EQ(a.blocks, std::set<uint64_t>{8});
  EXPECT_TRUE(second.removed_since(block(7), (2ull << 20) + 1)) << "a store that crosses it is answered removed";
  x.join(second);
  EXPECT_EQ(second.issued_again(), 1u) << "once";
}

// The same story, but a third master hears X first: A stands at a higher number than X's removal, yet never applied it.
TEST(RemovalLog, a_higher_number_of_another_term_does_not_prove_that_a_removal_was_applied) {
  Node x, a;
  {
    auto first = log_of(1);
    x.join(first), a.join(first);
    first.remove(block(7));
    x.apply(first.since(x.last));
    auto second = log_of(2);
    a.join(second);
    second.remove(block(9));
    a.apply(second.since(a.last));
  }
  a.blocks = {7, 8};
  auto third = log_of(3);
  x.join(third);
  a.join(third);
  EXPECT_EQ(a.blocks, std::set<uint64_t>{8});
  x.apply(third.since(x.last));
  EXPECT_EQ(x.last, a.last);
}

TEST(RemovalLog, who_is_beyond_reach_drops_and_only_it) {
  Node a, b;
  auto log = log_of(1, 10);
  a.join(log), b.join(log);
  b.blocks = {1, 2, 3};
  for (uint64_t n = 100; n < 150; ++n) {
    log.remove(block(n));
    a.apply(log.since(a.last));
  }
  b.join(log);
  EXPECT_TRUE(b.dropped_all);
  EXPECT_EQ(b.last, log.last());
  a.join(log);
  EXPECT_FALSE(a.dropped_all);
}

// A's tail is full and starts beyond where B stands: what lies between, nobody remembers.
TEST(RemovalLog, a_gap_between_tails_makes_the_log_short) {
  Node a, b;
  a.kept = b.kept = 10;
  {
    auto first = log_of(1, 10);
    a.join(first), b.join(first);
    for (uint64_t n = 0; n < 100; ++n) first.remove(block(n)), a.apply(first.since(a.last));
  }
  b.blocks = {50};
  {
    auto second = log_of(2, 10);           // b first: only a's join shows that there were others
    b.join(second);
    EXPECT_FALSE(b.dropped_all);
    EXPECT_EQ(b.blocks.count(50), 1u);
    a.join(second);
    EXPECT_FALSE(second.reaches(b.last)) << "b is told to join again";
    b.join(second);
    EXPECT_TRUE(b.dropped_all);
    EXPECT_TRUE(second.touched_beyond_reach(0).empty()) << "cannot be told: all";
  }
}

// The same gap, but the log held older removals of b before a's tail pushed them out: that must not hide the gap.
TEST(RemovalLog, trimming_what_lies_below_a_gap_does_not_close_it) {
  Node a, b, c;
  a.kept = b.kept = c.kept = 10;
  {
    auto first = log_of(1, 10);
    for (uint64_t n = 0; n < 5; ++n) first.remove(block(n));
    b.apply(first.since(0));               // cut off here
    for (uint64_t n = 5; n < 8; ++n) first.remove(block(n));
    c.apply(first.since(0));               // and c here
    for (uint64_t n = 8; n < 100; ++n) first.remove(block(n));
    a.apply(first.since(0));
  }
  b.blocks = {50}, c.blocks = {51};
  auto second = log_of(2, 10);
  b.join(second);
  uint64_t position = b.last;
  a.join(second);
  EXPECT_FALSE(second.reaches(position)) << "what b missed is in no log";
  for (uint64_t n = 200; n < 205; ++n) second.remove(block(n));
  EXPECT_FALSE(second.reaches(position));
  EXPECT_GE(second.floor_after(3), c.last);
  c.join(second);
  EXPECT_TRUE(c.dropped_all);
  EXPECT_TRUE(second.touched_beyond_reach(0).empty()) << "cannot be told: all";
}

TEST(RemovalLog, a_tail_of_nonsense_does_no_harm) {
  auto log = log_of(5, 10);
  EXPECT_FALSE(log.plausible(6ull << 20 | 3));
  EXPECT_FALSE(log.plausible(~0ull));
  EXPECT_TRUE(log.plausible(5ull << 20));
  Random random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<RemovalRecord> tail(random.below(30));
    for (auto& r : tail)
      r = {.id = block(random.below(5)), .number = random.below(6ull << 20), .generation = uint32_t(random.next()), .kind = RemovalKind(random.below(2))};
    log.merge(random.below(6ull << 20), tail);
    log.remove(block(1));
    EXPECT_LE(log.size(), 10u);
  }
  auto records = log.since(0);
  EXPECT_TRUE(std::is_sorted(records.begin(), records.end(), [](auto& x, auto& y) { return x.number < y.number; }));
}

// A master that issues more than a million removals runs into the numbers of terms after its own.
TEST(RemovalLog, more_than_a_million_removals_of_one_master) {
  auto log = log_of(1, 10);
  Node a;
  a.kept = 10;
  for (uint64_t n = 0; n < (1 << 20) + 50; ++n) log.remove(block(n));
  a.apply(log.since(0));
  EXPECT_TRUE(log.plausible(log.last()));
  uint64_t last = log.last();
  a.join(log);
  EXPECT_EQ(log.last(), last);
  EXPECT_EQ(log.issued_again(), 0u);
}

// Random stories: masters come and go, nodes are cut off and rejoin. Whenever all have joined the same master and taken
// its log, nobody holds a block that was removed while it held it.
TEST(RemovalLog, removed_means_gone_over_random_histories) {
  uint64_t dropped = 0, kept_blocks = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Random random(seed);
    std::vector<Node> nodes(4);
    uint64_t next_block = 1;
    for (uint64_t term = 1; term <= 6; ++term) {
      auto log = log_of(term);
      std::vector<bool> joined(nodes.size(), false);
      for (int step = 0; step < 30; ++step) {
        size_t i = random.below(nodes.size());
        Node& node = nodes[i];
        switch (random.below(4)) {
          case 0:
            if (random.chance(0.4)) node.join(log), joined[i] = true;
            break;
          case 1:
            node.blocks.insert(next_block++);
            break;
          case 2: {                        // each block is stored once, before it may be removed
            if (next_block == 1) break;
            log.remove(block(1 + random.below(next_block - 1)));
            break;
          }
          case 3:
            if (joined[i]) node.apply(log.since(node.last, 1 + random.below(5)));
            break;
        }
      }
    }
    auto last = log_of(9);
    for (int round = 0; round < 2; ++round)
      for (auto& node : nodes) node.join(last);
    for (auto& node : nodes) {
      node.apply(last.since(node.last));
      dropped += node.dropped_all;
      kept_blocks += node.blocks.size();
    }
    // What some node was told is known to the cluster; what a master issued to nobody died with it.
    std::set<uint64_t> told;
    for (auto& r : last.since(0)) told.insert(r.id.low);
    for (auto& node : nodes)
      for (uint64_t n : node.blocks) EXPECT_FALSE(told.count(n)) << "seed " << seed << ": block " << n << " is back";
  }
  EXPECT_EQ(dropped, 0u) << "logs were long enough: nobody had to drop everything";
  EXPECT_GT(kept_blocks, 1000u);
}

}  // namespace
}  // namespace millpond::master
