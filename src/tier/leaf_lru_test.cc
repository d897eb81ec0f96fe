// Goal: only leaves leave, the least recently used first; a leaving child hands its stamp on; the protected stay.
// Method: tables; then a random run against a model that looks at every block.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "base/random.h"
#include "tier/eviction.h"

namespace millpond::tier {
namespace {

Time at(int64_t seconds) { return {std::chrono::seconds(seconds)}; }
SlotIndex s(uint32_t n) { return SlotIndex(n); }

std::vector<uint32_t> drain(EvictionPolicy& policy, Time now) {
  std::vector<uint32_t> order;
  while (auto victim = policy.victim(now)) {
    order.push_back(victim->value);
    policy.gone(*victim);
  }
  return order;
}

TEST(LeafLru, LeavesGoBeforeTheirParents) {
  auto policy = make_leaf_lru();
  policy->added(s(0), kNoSlot, 1, at(0));   // chain 0 ← 1 ← 2, and 3 alone
  policy->added(s(1), s(0), 1, at(1));
  policy->added(s(2), s(1), 1, at(2));
  policy->added(s(3), kNoSlot, 1, at(3));
  EXPECT_EQ(drain(*policy, at(9)), (std::vector<uint32_t>{2, 1, 0, 3}));   // 1 and 0 inherit the stamp of 2, older than 3
}

TEST(LeafLru, UsingTheLastBlockKeepsTheWholeRun) {
  auto policy = make_leaf_lru();
  policy->added(s(0), kNoSlot, 1, at(0));
  policy->added(s(1), s(0), 1, at(1));
  policy->added(s(2), kNoSlot, 1, at(2));
  policy->added(s(3), s(2), 1, at(3));
  policy->used(s(1), at(4));
  EXPECT_EQ(drain(*policy, at(9)), (std::vector<uint32_t>{3, 2, 1, 0}));
}

TEST(LeafLru, AParentUsedByItselfKeepsItsOwnStamp) {
  auto policy = make_leaf_lru();
  policy->added(s(0), kNoSlot, 1, at(0));
  policy->added(s(1), s(0), 1, at(1));
  policy->added(s(2), kNoSlot, 1, at(2));
  policy->used(s(0), at(3));
  EXPECT_EQ(drain(*policy, at(9)), (std::vector<uint32_t>{1, 2, 0}));
}

TEST(LeafLru, SiblingsAndOrphans) {
  auto policy = make_leaf_lru();
  policy->added(s(0), kNoSlot, 1, at(0));
  policy->added(s(1), s(0), 1, at(1));
  policy->added(s(2), s(0), 1, at(2));
  policy->added(s(3), s(2), 1, at(3));
  policy->gone(s(2));                      // dropped from the middle: 3 is a root now, and 2's stamp is at 0
  EXPECT_EQ(drain(*policy, at(9)), (std::vector<uint32_t>{1, 0, 3}));
}

TEST(LeafLru, ProtectedBlocksStayUntilTheirTime) {
  auto policy = make_leaf_lru();
  policy->added(s(0), kNoSlot, 1, at(0));
  policy->added(s(1), kNoSlot, 1, at(1));
  policy->protect(s(0), at(10));
  EXPECT_EQ(policy->victim(at(5)), std::optional(s(1)));
  policy->protect(s(1), at(12));
  EXPECT_EQ(policy->victim(at(9)), std::nullopt);
  EXPECT_EQ(policy->victim_age(at(9)), Duration(0));
  EXPECT_EQ(policy->victim(at(10)), std::optional(s(0)));
  EXPECT_EQ(policy->victim_age(at(10)), std::chrono::seconds(10));
}

TEST(LeafLru, AProtectedParentThatBecomesALeafStays) {
  auto policy = make_leaf_lru();
  policy->added(s(0), kNoSlot, 1, at(0));
  policy->added(s(1), s(0), 1, at(1));
  policy->protect(s(0), at(10));
  policy->gone(s(1));
  EXPECT_EQ(policy->victim(at(5)), std::nullopt);
  EXPECT_EQ(policy->victim(at(10)), std::optional(s(0)));
}

TEST(LeafLru, EmptyHasNoVictimAndNoAge) {
  auto policy = make_leaf_lru();
  EXPECT_EQ(policy->victim(at(0)), std::nullopt);
  EXPECT_EQ(policy->victim_age(at(0)), Duration::max());
}

TEST(LeafLru, RandomRunAgreesWithAModelThatLooksAtEverything) {
  struct Model {
    uint32_t parent;
    uint64_t stamp;
    Time until;
  };
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    Random random(seed);
    auto policy = make_leaf_lru();
    std::map<uint32_t, Model> model;
    uint64_t stamp = 0;
    Time now = at(0);
    auto leaf = [&](uint32_t slot) { return std::ranges::none_of(model, [&](auto& e) { return e.second.parent == slot; }); };
    auto any = [&] { return std::next(model.begin(), long(random.below(model.size())))->first; };
    auto gone = [&](uint32_t slot) {
      policy->gone(s(slot));
      Model left = model.at(slot);
      model.erase(slot);
      if (auto parent = model.find(left.parent); parent != model.end()) parent->second.stamp = std::max(parent->second.stamp, left.stamp);
      for (auto& [other, record] : model) {
        if (record.parent == slot) record.parent = kNoSlot.value;
      }
    };
    for (int step = 0; step < 2000; ++step) {
      now = now + std::chrono::milliseconds(random.below(50));
      uint64_t what = random.below(10);
      if (what < 4 || model.empty()) {
        uint32_t slot = 0;
        while (model.contains(slot)) ++slot;
        uint32_t parent = model.empty() || random.chance(0.3) ? kNoSlot.value : any();
        policy->added(s(slot), s(parent), 1, now);
        model[slot] = {parent, ++stamp, at(-1)};
      } else if (what < 6) {
        uint32_t slot = any();
        policy->used(s(slot), now);
        model[slot].stamp = ++stamp;
      } else if (what < 7) {
        uint32_t slot = any();
        policy->protect(s(slot), now + std::chrono::seconds(1));
        model[slot].until = now + std::chrono::seconds(1);
      } else if (what < 8) {
        gone(any());
      } else {
        std::optional<uint32_t> expected;
        for (auto& [slot, record] : model) {
          if (record.until <= now && leaf(slot) && (!expected || record.stamp < model.at(*expected).stamp)) expected = slot;
        }
        auto victim = policy->victim(now);
        ASSERT_EQ(victim ? std::optional(victim->value) : std::nullopt, expected) << "seed " << seed << " step " << step;
        if (victim && model.size() > 20) gone(victim->value);
      }
    }
  }
}

}  // namespace
}  // namespace millpond::tier
