// Goal: stores go where they cost least, and never all to one node.
// Method: clusters as tables of capacity, free bytes, victim age and node age; shares are compared.
#include "master/placement.h"

#include <gtest/gtest.h>

namespace millpond::master {
namespace {
using std::chrono::hours;
using std::chrono::seconds;

constexpr uint64_t kGiB = 1ull << 30;
const Time kNow{hours(100)};

NodeLoad full(uint64_t gib, Duration victim_age, Duration age = hours(1)) {
  return {.capacity_bytes = gib * kGiB, .used_bytes = gib * kGiB, .free_bytes = 0, .victim_age = victim_age, .born = kNow - age};
}
NodeLoad empty(uint64_t gib, Duration age) {
  return {.capacity_bytes = gib * kGiB, .used_bytes = 0, .free_bytes = gib * kGiB, .victim_age = Duration::max(), .born = kNow - age};
}

std::vector<double> shares(const std::vector<NodeLoad>& loads, std::vector<size_t> closed = {}) {
  Placement placement({.ramp = seconds(30)});
  for (size_t i = 0; i < loads.size(); ++i) placement.report(NodeIndex(uint16_t(i)), loads[i]);
  for (size_t i : closed) placement.set_open(NodeIndex(uint16_t(i)), false);
  placement.update(kNow);
  double sum = 0;
  std::vector<double> result;
  for (size_t i = 0; i < loads.size(); ++i) sum += placement.weight(NodeIndex(uint16_t(i)));
  for (size_t i = 0; i < loads.size(); ++i) result.push_back(sum ? placement.weight(NodeIndex(uint16_t(i))) / sum : 0);
  return result;
}

TEST(Placement, alike_nodes_share_alike_and_by_capacity) {
  auto s = shares({full(10, seconds(100)), full(10, seconds(100)), full(20, seconds(100))});
  EXPECT_NEAR(s[0], 0.25, 1e-3);
  EXPECT_NEAR(s[2], 0.5, 1e-3);
  s = shares({empty(10, seconds(1)), empty(10, seconds(1))});
  EXPECT_NEAR(s[0], 0.5, 1e-3) << "all new: nobody ramps";
}

TEST(Placement, the_older_the_next_victim_the_more_stores) {
  auto s = shares({full(10, seconds(50)), full(10, seconds(100)), full(10, seconds(150))});
  EXPECT_LT(s[0], s[1]);
  EXPECT_LT(s[1], s[2]);
}

TEST(Placement, a_new_empty_node_in_a_full_cluster_ramps_up_and_gets_at_most_twice_its_fair_share) {
  for (size_t others : {2, 4, 9, 99}) {
    double before = 0;
    for (int age : {0, 3, 10, 20, 30, 3000}) {
      std::vector<NodeLoad> loads(others, full(10, seconds(100)));
      loads.push_back(empty(10, seconds(age)));
      double share = shares(loads).back(), fair = 1.0 / double(others + 1);
      EXPECT_LE(share, 2 * fair * 1.001) << others << " others, age " << age;
      EXPECT_GT(share, 0);
      EXPECT_GE(share, before * 0.999);
      before = share;
    }
    EXPECT_GT(before, 1.0 / double(others + 1)) << "free room is worth more than a victim";
  }
}

TEST(Placement, a_node_restarted_with_its_blocks_does_not_ramp) {
  auto s = shares({full(10, seconds(100)), full(10, seconds(100)), full(10, seconds(100), seconds(0))});
  EXPECT_NEAR(s[2], 1.0 / 3, 1e-3);
}

TEST(Placement, nobody_gets_more_than_twice_its_fair_share_whatever_is_reported) {
  std::vector<NodeLoad> loads = {full(1, seconds(1'000'000)), empty(5, hours(1)), full(100, Duration(0)), full(10, seconds(1)), empty(1, hours(1))};
  auto s = shares(loads);
  double capacity = 1 + 5 + 100 + 10 + 1, sum = 0;
  for (size_t i = 0; i < loads.size(); ++i) {
    EXPECT_LE(s[i], 2 * double(loads[i].capacity_bytes / kGiB) / capacity * 1.001) << i;
    sum += s[i];
  }
  EXPECT_NEAR(sum, 1, 1e-9);
}

TEST(Placement, suspect_and_dead_get_nothing_and_no_capacity_is_no_division_by_zero) {
  auto s = shares({full(10, seconds(1)), full(10, seconds(1))}, {0});
  EXPECT_EQ(s[0], 0);
  EXPECT_EQ(s[1], 1);
  s = shares({NodeLoad{}, NodeLoad{.free_bytes = 5}});
  EXPECT_EQ(s[0], 0);
  EXPECT_EQ(shares({}).size(), 0u);
}

TEST(Placement, small_moves_are_not_worth_a_new_view) {
  Placement placement({.ramp = seconds(30)});
  placement.report(NodeIndex(0), full(10, seconds(100)));
  placement.report(NodeIndex(1), full(10, seconds(100)));
  EXPECT_TRUE(placement.update(kNow));
  placement.report(NodeIndex(1), full(10, seconds(102)));
  EXPECT_FALSE(placement.update(kNow));
  placement.report(NodeIndex(1), full(10, seconds(150)));
  EXPECT_TRUE(placement.update(kNow));
  placement.set_open(NodeIndex(1), false);
  EXPECT_TRUE(placement.update(kNow));
  EXPECT_EQ(placement.weight(NodeIndex(1)), 0u);
  placement.forget(NodeIndex(0));
  EXPECT_EQ(placement.weight(NodeIndex(0)), 0u);
}

}  // namespace
}  // namespace millpond::master
