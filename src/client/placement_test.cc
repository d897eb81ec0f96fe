// Goal: blocks go near at equal worth, elsewhere in proportion to weight, never where they may not. Method: tables, and
// counting many seeded choices.
#include "client/placement.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace millpond::client {
namespace {

std::map<uint64_t, int> choices(const std::vector<Candidate>& candidates, int times = 10'000) {
  Random random(7);
  std::map<uint64_t, int> count;
  for (int i = 0; i < times; ++i) {
    auto chosen = choose(candidates, random);
    ++count[chosen ? candidates[*chosen].node.value : 0];
  }
  return count;
}

TEST(Placement, in_this_process_at_half_the_best_weight_or_more) {
  EXPECT_EQ(choices({{NodeId(1), 50, true}, {NodeId(2), 100}}), (std::map<uint64_t, int>{{1, 10'000}}));
  EXPECT_GT(choices({{NodeId(1), 49, true}, {NodeId(2), 100}})[2], 6'000);
}

TEST(Placement, on_this_host_next) {
  EXPECT_EQ(choices({{NodeId(1), 10, true}, {NodeId(2), 60, false, true}, {NodeId(3), 100}}), (std::map<uint64_t, int>{{2, 10'000}}));
}

TEST(Placement, elsewhere_in_proportion_to_weight) {
  auto count = choices({{NodeId(1), 300}, {NodeId(2), 100}, {NodeId(3), 0}});
  EXPECT_NEAR(count[1], 7'500, 300);
  EXPECT_NEAR(count[2], 2'500, 300);
  EXPECT_EQ(count[3], 0);
}

TEST(Placement, never_where_it_is_not_usable) {
  EXPECT_EQ(choices({{.node = NodeId(1), .weight = 9, .in_process = true, .usable = false}, {NodeId(2), 1}})[2], 10'000);
  EXPECT_EQ(choices({{.node = NodeId(1), .weight = 9, .usable = false}, {NodeId(2), 0}})[0], 10'000);
  EXPECT_EQ(choices({})[0], 10'000);
}

TEST(Placement, weights_do_not_overflow) {
  EXPECT_GT(choices({{NodeId(1), ~0u}, {NodeId(2), ~0u}})[2], 4'000);
}

}  // namespace
}  // namespace millpond::client
