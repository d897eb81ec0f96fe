// Goal: the small parts of the master do what their headers say. Method: tables.
#include <gtest/gtest.h>

#include "master/json.h"
#include "master/namespaces.h"
#include "master/node_stream.h"
#include "master/pending_removals.h"
#include "master/touch_queue.h"
#include "master/trace.h"
#include "master/view.h"

namespace millpond::master {
namespace {
BlockId block(uint64_t n) { return {.high = n, .low = n, .namespace_id = 1}; }

TEST(NodeStream, next_repeated_and_gap) {
  using V = NodeStream::Verdict;
  NodeStream stream;
  stream.begin(3);
  EXPECT_EQ(stream.judge(1, 5), V::next);
  EXPECT_EQ(stream.judge(2, 5), V::gap);
  EXPECT_EQ(stream.judge(0, 5), V::gap);
  stream.applied(1, std::vector<AdvertAnswer>(5));
  EXPECT_EQ(stream.acked, 5u);
  EXPECT_EQ(stream.judge(1, 5), V::repeated);
  EXPECT_EQ(stream.judge(1, 4), V::gap) << "another batch under the same number";
  EXPECT_EQ(stream.judge(6, 1), V::next);
  EXPECT_EQ(stream.judge(6, 0), V::next) << "only says complete";
  stream.applied(6, {});
  EXPECT_EQ(stream.judge(6, 0), V::next);
  EXPECT_EQ(stream.judge(1, 5), V::repeated);
  stream.begin(4);
  EXPECT_EQ(stream.judge(1, 5), V::next) << "a new round starts at 1";
}

TEST(Trace, remembers_the_latest_departure_and_forgets_the_oldest) {
  Trace trace(3);
  auto leave = [&](uint64_t n, Departure why) { trace.record({block(n), NodeId(1), Time{}, why}); };
  leave(1, Departure::evicted);
  leave(1, Departure::removed);
  EXPECT_EQ(trace.find(block(1))->why, Departure::removed);
  leave(2, Departure::evicted);
  leave(3, Departure::evicted);            // overwrites the first of block 1, not its latest
  EXPECT_EQ(trace.find(block(1))->why, Departure::removed);
  leave(4, Departure::evicted);
  EXPECT_FALSE(trace.find(block(1)).has_value());
  EXPECT_TRUE(trace.find(block(2)).has_value());
  for (uint64_t n = 10; n < 1000; ++n) leave(n, Departure::evicted);
  EXPECT_EQ(trace.size(), 3u);
  EXPECT_TRUE(trace.find(block(999)).has_value());
  EXPECT_FALSE(trace.find(block(10)).has_value());
}

TEST(TouchQueue, runs_of_a_prefix_are_told_per_node) {
  std::vector<FoundReplica> replicas = {{0, 1, 0, 0}, {0, 2, 0, 0}, {1, 1, 0, 0}, {2, 2, 0, 0}, {3, 2, 0, 0}};
  std::vector<std::tuple<int, uint32_t, uint32_t>> runs;
  for_each_run(replicas, [&](NodeIndex node, uint32_t last, uint32_t length) { runs.emplace_back(node.value, last, length); });
  std::sort(runs.begin(), runs.end());
  EXPECT_EQ(runs, (std::vector<std::tuple<int, uint32_t, uint32_t>>{{1, 1, 2}, {2, 0, 1}, {2, 3, 2}}));
}

TEST(TouchQueue, says_a_run_once_and_drops_the_oldest_when_full) {
  TouchQueue queue;
  queue.add(block(1), 5);
  queue.add(block(1), 9);
  queue.add(block(1), 2);
  auto taken = queue.take(10);
  ASSERT_EQ(taken.size(), 1u);
  EXPECT_EQ(taken[0].length, 9u);
  EXPECT_TRUE(queue.empty());
  for (uint64_t n = 0; n < TouchQueue::kWaitingMax + 10; ++n) queue.add(block(n), 1);
  EXPECT_EQ(queue.dropped(), 10u);
  EXPECT_EQ(queue.take(1).front().id, block(10));
  queue.add(block(5), 1);                  // dropped before: new again
  EXPECT_EQ(queue.take(100'000).size(), TouchQueue::kWaitingMax);
}

TEST(PendingRemovals, answer_when_all_have_confirmed_or_time_is_up) {
  PendingRemovals pending;
  std::vector<int> answers;
  auto wait = [&](uint64_t number, std::set<NodeIndex> nodes) {
    return pending.wait(number, std::move(nodes), [&](uint32_t n) { answers.push_back(int(n)); });
  };
  EXPECT_EQ(wait(5, {}), 0u);
  EXPECT_EQ(answers, std::vector<int>{0});
  wait(5, {NodeIndex(1), NodeIndex(2)});
  pending.confirmed(NodeIndex(1), 4);
  pending.confirmed(NodeIndex(1), 5);
  EXPECT_EQ(answers.size(), 1u);
  pending.confirmed(NodeIndex(2), 9);
  EXPECT_EQ(answers, (std::vector<int>{0, 0}));
  uint64_t ticket = wait(6, {NodeIndex(1), NodeIndex(2), NodeIndex(3)});
  pending.lost(NodeIndex(1));
  pending.confirmed(NodeIndex(2), 6);
  pending.expire(ticket);
  EXPECT_EQ(answers.back(), 2) << "one died, one said nothing";
  pending.expire(ticket);
  wait(7, {NodeIndex(1)});
  pending.lost(NodeIndex(1));
  EXPECT_EQ(answers.back(), 1);
  EXPECT_EQ(pending.size(), 0u);
}

TEST(Namespaces, a_second_name_with_the_same_id_is_refused) {
  Namespaces names;
  EXPECT_TRUE(names.open(NamespaceId(5), "t", "a").ok());
  EXPECT_TRUE(names.open(NamespaceId(5), "t", "a").ok());
  Status refused = names.open(NamespaceId(5), "t", "b");
  EXPECT_EQ(refused.code(), Code::refused);
  EXPECT_NE(refused.message().find("t/b"), std::string::npos);
  EXPECT_EQ(names.open(NamespaceId(6), "", "b").code(), Code::invalid);
  EXPECT_EQ(names.open(NamespaceId(6), "t", std::string(2000, 'x')).code(), Code::invalid);
}

TEST(View, newcomers_show_at_once_the_rest_ten_times_a_second) {
  using std::chrono::milliseconds;
  Membership membership{{}};
  Placement placement{{}};
  View view(0, milliseconds(100));
  Time now{std::chrono::seconds(1)};
  Changes changes;
  (void)membership.join({.id = NodeId(1), .epoch = NodeEpoch(1)}, now, changes);
  uint64_t version = view.version();
  view.refresh(membership, placement, now, true);
  EXPECT_EQ(view.version(), version) << "nothing changed";
  view.change();
  view.refresh(membership, placement, now, true);
  EXPECT_EQ(view.version(), version + 1);
  ASSERT_EQ(view.rows().size(), 1u);
  size_t made = 0;
  for (int i = 0; i < 1000; ++i) {
    now = now + milliseconds(1);
    view.change();
    uint64_t before = view.version();
    view.refresh(membership, placement, now, false);
    made += view.version() != before;
  }
  EXPECT_EQ(made, 10u);
}

TEST(Json, escapes_whatever_a_node_calls_itself) {
  Json j;
  j.open('{').field("a\"b", "x\\y\n\x01").field("n", uint64_t(18446744073709551615ull)).key("list").open('[');
  j.value(1.5).value(true).value(1.0 / 0.0).open('{').close('}').close(']').field("utf8", "g\xc3\xbc").field("bad", "\xff\xc3+\xed\xa0\x80").close('}');
  EXPECT_EQ(j.text(),
            "{\"a\\\"b\":\"x\\\\y\\u000a\\u0001\",\"n\":18446744073709551615,\"list\":[1.5,true,null,{}],\"utf8\":\"g\xc3\xbc\",\"bad\":\"?" "?+?" "?" "?\"}");
}

}  // namespace
}  // namespace millpond::master
