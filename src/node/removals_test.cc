// Goal: removals are applied in the master's order, each once, never beyond a gap; the tail has no gaps.
// Method: small lists of records.
#include "node/removals.h"

#include <gtest/gtest.h>

namespace millpond::node {
namespace {

Removal record(uint64_t number) { return {.id = {.high = number, .low = number}, .number = number}; }
std::vector<Removal> records(uint64_t first, uint64_t last) {
  std::vector<Removal> all;
  for (uint64_t n = first; n <= last; ++n) all.push_back(record(n));
  return all;
}

TEST(Removals, AppliesInOrderAndOnce) {
  Removals removals(100);
  EXPECT_EQ(removals.apply(0, records(1, 3)).size(), 3u);
  EXPECT_EQ(removals.apply(0, records(1, 5)).size(), 2u) << "records at or below the last are skipped";
  EXPECT_EQ(removals.last(), 5u);
  EXPECT_TRUE(removals.apply(5, records(4, 5)).empty());
}

TEST(Removals, StopsAtAGap) {
  Removals removals(100);
  removals.apply(0, records(1, 3));
  EXPECT_TRUE(removals.apply(4, records(5, 6)).empty());
  EXPECT_EQ(removals.last(), 3u) << "says where it stands, and is sent the rest";
  EXPECT_EQ(removals.apply(3, records(4, 6)).size(), 3u);
}

TEST(Removals, NumbersOfALaterTermLeaveNoGap) {
  Removals removals(100);
  removals.apply(0, records(1, 3));
  uint64_t later = (2ull << 20) + 1;
  EXPECT_EQ(removals.apply(3, records(later, later + 1)).size(), 2u);
  EXPECT_EQ(removals.last(), later + 1);
}

TEST(Removals, TailIsBounded) {
  Removals removals(10);
  removals.apply(0, records(1, 25));
  ASSERT_EQ(removals.tail().size(), 10u);
  EXPECT_EQ(removals.tail().front().number, 16u);
}

TEST(Removals, RestartDropsTheTailBeforeTheGap) {
  Removals removals(10);
  removals.apply(0, records(1, 3));
  EXPECT_EQ(removals.restart(records(50, 52)).size(), 3u);
  EXPECT_EQ(removals.tail().front().number, 50u);
  EXPECT_EQ(removals.last(), 52u);
}

}  // namespace
}  // namespace millpond::node
