// Goal: pages and slots are handed out once, in the promised order, and come back.
// Method: tables for the order; a seeded random run against a plain set for the rest.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "base/random.h"
#include "memory/page_pool.h"
#include "memory/slab_pool.h"

namespace millpond::memory {
namespace {

std::vector<uint32_t> take(PagePool& pool, uint32_t count, uint32_t faulted) {
  std::vector<uint32_t> pages;
  EXPECT_TRUE(pool.take(count, faulted, pages));
  return pages;
}

TEST(PagePool, FreshFaultedPagesThenOldestReturnedThenUnfaulted) {
  PagePool pool(2, 10);
  EXPECT_EQ(pool.free_count(), 8u);
  EXPECT_EQ(take(pool, 3, 4), (std::vector<uint32_t>{2, 3, 4}));
  pool.give(PageIndex(4));
  pool.give(PageIndex(2));
  EXPECT_EQ(take(pool, 1, 4), (std::vector<uint32_t>{4}));
  EXPECT_EQ(take(pool, 3, 6), (std::vector<uint32_t>{5, 2, 6}));
  EXPECT_EQ(pool.free_count(), 3u);
}

TEST(PagePool, AllOrNothing) {
  PagePool pool(0, 4);
  std::vector<uint32_t> pages;
  EXPECT_FALSE(pool.take(5, 0, pages));
  EXPECT_TRUE(pages.empty());
  EXPECT_EQ(pool.free_count(), 4u);
  EXPECT_TRUE(pool.take(4, 0, pages));
  EXPECT_FALSE(pool.take(1, 4, pages));
  EXPECT_TRUE(pool.take(0, 4, pages));
}

TEST(PagePoolDeathTest, PagesThatWereNeverTakenStopUs) {
  PagePool pool(1, 4);
  EXPECT_DEATH(pool.give(PageIndex(0)), "page 0");
  EXPECT_DEATH(pool.give(PageIndex(2)), "page 2");
  take(pool, 1, 4);
  pool.give(PageIndex(1));
  EXPECT_DEATH(pool.give(PageIndex(1)), "twice");
}

TEST(SlabPool, PagesComeAndGo) {
  SlabPool pool(3);
  EXPECT_EQ(pool.free_slots(), 0u);
  pool.add_page(PageIndex(7));
  auto a = pool.take(), b = pool.take(), c = pool.take();
  EXPECT_EQ(pool.free_slots(), 0u);
  EXPECT_FALSE(pool.give(b));
  EXPECT_EQ(pool.take(), b);
  EXPECT_FALSE(pool.give(a));
  EXPECT_FALSE(pool.give(b));
  EXPECT_EQ(pool.give(c), std::optional(PageIndex(7)));
  EXPECT_EQ(pool.free_slots(), 0u);
  EXPECT_EQ(pool.page_count(), 0u);
}

TEST(SlabPoolDeathTest, ASlotComesBackOnce) {
  SlabPool pool(64);
  pool.add_page(PageIndex(1));
  auto a = pool.take();
  pool.take();
  pool.give(a);
  EXPECT_DEATH(pool.give(a), "twice");
  EXPECT_DEATH(pool.give({PageIndex(2), 0}), "not ours");
}

TEST(SlabPool, RandomRunHandsEachSlotOutOnce) {
  for (uint32_t per_page : {1u, 2u, 64u, 85u, 128u}) {
    Random random(per_page);
    SlabPool pool(per_page);
    std::vector<SlabSlot> taken;
    std::set<SlabSlot> out;
    std::set<uint32_t> pages;
    uint32_t next_page = 0;
    for (int step = 0; step < 20'000; ++step) {
      bool grow = (step / 2000) % 2 == 0;
      if (random.chance(grow ? 0.7 : 0.3)) {
        if (pool.free_slots() == 0) pages.insert(next_page), pool.add_page(PageIndex(next_page++));
        auto slot = pool.take();
        ASSERT_TRUE(out.insert(slot).second);
        ASSERT_TRUE(pages.contains(slot.page.value));
        ASSERT_LT(slot.index, per_page);
        taken.push_back(slot);
      } else if (!taken.empty()) {
        std::swap(taken[random.below(taken.size())], taken.back());
        auto slot = taken.back();
        taken.pop_back();
        out.erase(slot);
        if (auto empty = pool.give(slot)) {
          ASSERT_EQ(pages.erase(empty->value), 1u);
          ASSERT_TRUE(std::ranges::none_of(out, [&](auto& s) { return s.page == *empty; }));
        }
      }
      ASSERT_EQ(pool.used_slots(), out.size());
      ASSERT_EQ(pool.used_slots() + pool.free_slots(), pages.size() * per_page);
    }
  }
}

}  // namespace
}  // namespace millpond::memory
