// Goal: nodes are suspected, die, return and make room as the protocol says; our own stall and a loss of our network
// kill nobody.
// Method: a table of moments; time is an argument.
#include "master/membership.h"

#include <gtest/gtest.h>

namespace millpond::master {
namespace {
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Rig {
  Membership membership{{.suspect_after = seconds(3), .dead_after = seconds(10), .sweep_after = seconds(60), .stall_gap = milliseconds(500)}};
  Time now{seconds(1000)};
  Changes changes;

  NodeIndex join(uint64_t id, uint64_t epoch = 1) {
    auto index = membership.join({.id = NodeId(id), .epoch = NodeEpoch(epoch), .name = "n", .address = "a:1"}, now, changes);
    EXPECT_TRUE(index.has_value());
    return index ? *index : kNoNode;
  }
  Code beat(uint64_t id, uint64_t epoch = 1) { return membership.heard(NodeId(id), NodeEpoch(epoch), now, changes); }
  // Time passes in ticks; the nodes in `beating` speak at each.
  void pass(Duration duration, std::vector<uint64_t> beating = {}) {
    for (Time end = now + duration; now < end;) {
      now = now + milliseconds(100);
      for (uint64_t id : beating) beat(id);
      membership.tick(now, changes);
    }
  }
  Standing of(uint64_t id) {
    const Member* member = membership.find(NodeId(id));
    return member ? member->standing : Standing::gone;
  }
};

TEST(Membership, silence_makes_suspect_then_dead_then_gone) {
  Rig rig;
  rig.join(1);
  rig.pass(seconds(3));
  EXPECT_EQ(rig.of(1), Standing::alive);
  rig.pass(milliseconds(200));
  EXPECT_EQ(rig.of(1), Standing::suspect);
  rig.pass(seconds(6));
  EXPECT_EQ(rig.of(1), Standing::suspect);
  rig.pass(seconds(1));
  EXPECT_EQ(rig.of(1), Standing::dead);
  rig.pass(seconds(59));
  EXPECT_EQ(rig.of(1), Standing::dead);
  EXPECT_EQ(rig.beat(1), Code::ok) << "death is reversible";
  EXPECT_EQ(rig.of(1), Standing::alive);
  rig.pass(seconds(72));
  EXPECT_EQ(rig.of(1), Standing::gone);
  EXPECT_EQ(rig.beat(1), Code::stale) << "swept: it must join again";
  EXPECT_EQ(rig.membership.gone(), std::vector<NodeIndex>{NodeIndex(0)});
}

TEST(Membership, the_same_epoch_keeps_its_index) {
  Rig rig;
  auto first = rig.join(1);
  rig.pass(seconds(12));
  EXPECT_EQ(rig.join(1), first);
  EXPECT_EQ(rig.of(1), Standing::alive);
  EXPECT_NE(rig.join(2), first);
}

TEST(Membership, a_later_epoch_ends_the_earlier_at_once) {
  Rig rig;
  auto old = rig.join(1, 5);
  rig.changes.clear();
  auto index = rig.join(1, 6);
  EXPECT_NE(index, old);
  ASSERT_EQ(rig.changes.size(), 2u);
  EXPECT_EQ(rig.changes[0].index, old);
  EXPECT_EQ(rig.changes[0].to, Standing::gone);
  EXPECT_EQ(rig.beat(1, 5), Code::stale);
  EXPECT_EQ(rig.beat(1, 6), Code::ok);
  auto refused = rig.membership.join({.id = NodeId(1), .epoch = NodeEpoch(5)}, rig.now, rig.changes);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), Code::stale);
}

TEST(Membership, a_lost_connection_makes_suspect_at_once_and_a_word_undoes_it) {
  Rig rig;
  auto index = rig.join(1);
  rig.membership.connection_lost(index, rig.changes);
  EXPECT_EQ(rig.of(1), Standing::suspect);
  rig.beat(1);
  EXPECT_EQ(rig.of(1), Standing::alive);
  rig.membership.connection_lost(NodeIndex(77), rig.changes);   // unknown: nothing
}

TEST(Membership, who_must_rejoin_is_stale_until_it_does) {
  Rig rig;
  auto index = rig.join(1);
  rig.pass(seconds(11));
  rig.membership.require_rejoin(index);
  EXPECT_EQ(rig.beat(1), Code::stale);
  EXPECT_EQ(rig.of(1), Standing::dead) << "nothing of it counts yet";
  EXPECT_EQ(rig.join(1), index);
  EXPECT_EQ(rig.beat(1), Code::ok);
}

TEST(Membership, unknown_nodes_are_stale_and_a_leave_is_final) {
  Rig rig;
  EXPECT_EQ(rig.beat(9), Code::stale);
  rig.join(1);
  rig.membership.leave(NodeId(1), NodeEpoch(2), rig.changes);
  EXPECT_EQ(rig.of(1), Standing::alive) << "another epoch's leave";
  rig.membership.leave(NodeId(1), NodeEpoch(1), rig.changes);
  EXPECT_EQ(rig.of(1), Standing::gone);
  EXPECT_EQ(rig.beat(1), Code::stale);
}

// The master stood still for 15 s (SIGSTOP, a paused VM): nobody could be heard, nobody dies of it.
TEST(Membership, our_own_stall_counts_against_nobody) {
  Rig rig;
  for (uint64_t id : {1, 2}) rig.join(id);
  rig.pass(seconds(1), {1, 2});
  rig.now = rig.now + seconds(15);
  rig.membership.tick(rig.now, rig.changes);
  EXPECT_EQ(rig.of(1), Standing::alive);
  rig.pass(seconds(2), {});
  EXPECT_EQ(rig.of(1), Standing::alive);
  rig.pass(seconds(2), {2});
  EXPECT_EQ(rig.of(1), Standing::suspect) << "silence since counts as ever";
  EXPECT_EQ(rig.of(2), Standing::alive);
  EXPECT_EQ(rig.membership.counters().stalls, 1u);
}

TEST(Membership, a_stall_does_not_hasten_the_sweep_of_the_dead) {
  Rig rig;
  rig.join(1);
  rig.pass(seconds(11));
  ASSERT_EQ(rig.of(1), Standing::dead);
  rig.now = rig.now + seconds(300);
  rig.membership.tick(rig.now, rig.changes);
  EXPECT_EQ(rig.of(1), Standing::dead);
}

TEST(Membership, many_silent_at_once_get_a_second_allowance) {
  Rig rig;
  for (uint64_t id = 1; id <= 5; ++id) rig.join(id);
  rig.pass(seconds(1), {1, 2, 3, 4, 5});
  rig.pass(seconds(15), {1, 2});
  EXPECT_EQ(rig.of(3), Standing::suspect) << "three of five: more likely our network than theirs";
  EXPECT_EQ(rig.membership.counters().graces, 1u);
  rig.pass(seconds(6), {1, 2});
  EXPECT_EQ(rig.of(3), Standing::dead) << "but not for ever";
  EXPECT_EQ(rig.of(1), Standing::alive);
}

TEST(Membership, few_silent_ones_die_in_time) {
  Rig rig;
  for (uint64_t id = 1; id <= 5; ++id) rig.join(id);
  rig.pass(seconds(11), {1, 2, 3});
  EXPECT_EQ(rig.of(4), Standing::dead);
}

TEST(Membership, an_index_is_reused_only_after_release_and_when_no_fresh_one_is_left) {
  Membership membership{{.nodes_max = 2}};
  Changes changes;
  Time now{seconds(1)};
  auto join = [&](uint64_t id, uint64_t epoch) { return membership.join({.id = NodeId(id), .epoch = NodeEpoch(epoch)}, now, changes); };
  EXPECT_EQ(*join(1, 1), NodeIndex(0));
  EXPECT_EQ(*join(2, 1), NodeIndex(1));
  EXPECT_EQ(join(3, 1).error().code(), Code::overloaded);
  membership.leave(NodeId(1), NodeEpoch(1), changes);
  EXPECT_EQ(join(3, 1).error().code(), Code::overloaded) << "not swept yet";
  membership.release(NodeIndex(0));
  EXPECT_EQ(*join(3, 1), NodeIndex(0));
}

}  // namespace
}  // namespace millpond::master
