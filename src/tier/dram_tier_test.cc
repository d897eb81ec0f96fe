// Goal: what was stored is found until it leaves, and everything that leaves is told in order.
// Method: a tier of 8 MiB; one test for each promise of the header, the bad days included.
#include "tier/dram_tier.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <set>

#include "tier/arena_layout.h"
#include "tier/settings.h"
#include "tier/tier_test_support.h"

namespace millpond::tier {
namespace {

using namespace test;
constexpr uint64_t kMiB = 1 << 20;

struct DramTierTest : testing::Test {
  Metrics metrics;
  std::unique_ptr<DramTier> tier = open_tier(metrics, {.capacity = MiB(8), .condemned_fraction = 0.2});

  Named n(int i) { return Named("block " + std::to_string(i)); }
  double metric(const std::string& name) { return metrics.values().at(name); }
  void fill(int from, int to) {
    for (int i = from; i < to; ++i) ASSERT_EQ(store(*tier, n(i), kMiB, at(i)), Code::ok) << i;
  }
};

TEST_F(DramTierTest, StoresAndFinds) {
  for (uint64_t length : {uint64_t(1), uint64_t(511), uint64_t(4096), uint64_t(32768), uint64_t(32769), uint64_t(65536), uint64_t(65537), kMiB + 3}) {
    Named name("of " + std::to_string(length));
    ASSERT_EQ(store(*tier, name, length, at(1)), Code::ok);
    auto view = tier->find(name.hash.id, at(2));
    ASSERT_TRUE(view);
    EXPECT_EQ(view->length, length);
    EXPECT_TRUE(good(*view, name));
    EXPECT_EQ(tier->key_of(name.hash.id), std::optional(name.key));
    EXPECT_TRUE(tier->contains(name.hash.id));
    EXPECT_EQ(view->places.pages.size(), length <= 65536 ? 1u : (length + 65535) / 65536);
    tier->usage();
  }
  EXPECT_FALSE(tier->find(n(1).hash.id, at(3)));
  EXPECT_FALSE(tier->key_of(n(1).hash.id));
  EXPECT_EQ(metric("millpond_tier_misses_total{tier=\"dram\"}"), 1);
}

// Storing block n+1 of a prompt that is longer than the arena must not evict block n: nothing could find n+1 then.
TEST_F(DramTierTest, AChainLongerThanTheArenaKeepsItsHead) {
  int kept = 0;
  Code last = Code::ok;
  for (int i = 0; i < 20; ++i) {
    Named name = n(i);                   // the spec holds a view of its key
    auto spec = spec_of(name, kMiB);
    if (i > 0) spec.parent = n(i - 1).hash.id;
    auto reservation = tier->reserve(spec, at(i));
    last = reservation ? Code::ok : reservation.error().code();
    if (!reservation) break;
    std::vector<uint64_t> sums(chunk_count(kMiB));
    ASSERT_TRUE(tier->commit(*std::move(reservation), sums, 1, at(i)));
    ++kept;
  }
  EXPECT_EQ(last, Code::no_space);
  EXPECT_GE(kept, 5);
  for (int i = 0; i < kept; ++i) EXPECT_TRUE(tier->contains(n(i).hash.id)) << i;
  EXPECT_EQ(metric("millpond_tier_no_space_total{tier=\"dram\",reason=\"parent\"}"), 1);
  EXPECT_EQ(store(*tier, n(100), kMiB, at(30)), Code::ok);   // others displace its tail as ever
  EXPECT_FALSE(tier->contains(n(kept - 1).hash.id));
}

// When nobody can say which blocks were removed, none of the namespace may be loaded any more: not a condemned one, not
// one that was being written.
TEST_F(DramTierTest, DroppingANamespaceTakesCondemnedAndHalfWrittenBlocksToo) {
  fill(0, 8);
  ASSERT_GT(tier->usage().condemned.count, 0u);
  auto reservation = tier->reserve(spec_of(n(100), kMiB), at(20));
  ASSERT_TRUE(reservation);
  uint32_t other = n(0).hash.id.namespace_id + 1;
  EXPECT_EQ(tier->drop_namespaces(std::vector<uint32_t>{other}, DropReason::removed), 0u);
  EXPECT_GT(tier->drop_namespaces(std::vector<uint32_t>{n(0).hash.id.namespace_id}, DropReason::removed), 0u);
  for (int i = 0; i < 8; ++i) EXPECT_FALSE(tier->find(n(i).hash.id, at(21))) << i;
  std::vector<uint64_t> sums(chunk_count(kMiB));
  EXPECT_EQ(tier->commit(*std::move(reservation), sums, 1, at(21)).error().code(), Code::stale);
  EXPECT_EQ(tier->usage().live.count + tier->usage().condemned.count, 0u);
}

// Who computed a block again wants it: that is a use.
TEST_F(DramTierTest, StoringWhatIsHereRefreshesIt) {
  fill(0, 5);
  EXPECT_EQ(tier->reserve(spec_of(n(0), kMiB), at(10)).error().code(), Code::exists);
  fill(5, 9);
  EXPECT_TRUE(tier->contains(n(0).hash.id));
  EXPECT_FALSE(tier->contains(n(1).hash.id));
}

TEST_F(DramTierTest, WhatIsNotCommittedIsNotThere) {
  {
    auto reservation = tier->reserve(spec_of(n(1), kMiB), at(1));
    ASSERT_TRUE(reservation);
    EXPECT_EQ(total_bytes(reservation->pieces()), kMiB);
    EXPECT_FALSE(tier->find(n(1).hash.id, at(1)));
    EXPECT_EQ(tier->usage().reserved.count, kMiB);
    EXPECT_EQ(tier->reserve(spec_of(n(1), kMiB), at(1)).error().code(), Code::exists);   // the other writer
  }
  EXPECT_EQ(tier->usage().reserved.count, 0u);
  EXPECT_EQ(tier->last_event(), 0u);
  EXPECT_EQ(store(*tier, n(1), kMiB, at(2)), Code::ok);
  EXPECT_EQ(tier->reserve(spec_of(n(1), kMiB), at(3)).error().code(), Code::exists);
}

TEST_F(DramTierTest, BadRequestsSayWhatWasWrong) {
  auto code = [&](BlockSpec spec) { return tier->reserve(spec, at(0)).error().code(); };
  EXPECT_EQ(code(spec_of(n(1), 0)), Code::invalid);
  EXPECT_EQ(code(spec_of(n(1), 8 * kMiB)), Code::invalid);   // the arena's own pages do not hold blocks
  EXPECT_EQ(code(spec_of(n(1), std::numeric_limits<uint64_t>::max())), Code::invalid);
  std::string long_key(4097, 'k');
  EXPECT_EQ(code({.id = n(1).hash.id, .key = long_key, .length = 1}), Code::invalid);
  EXPECT_EQ(code({.id = n(1).hash.id, .key = "", .length = 1}), Code::invalid);
  EXPECT_EQ(code({.id = {}, .key = "k", .length = 1}), Code::invalid);
  auto reservation = tier->reserve(spec_of(n(1), kMiB), at(0));
  std::vector<uint64_t> sums(15);
  auto done = tier->commit(std::move(*reservation), sums, 1, at(0));
  EXPECT_EQ(done.error().code(), Code::invalid);
  EXPECT_NE(done.error().message().find("15 sums"), std::string::npos);
  EXPECT_EQ(tier->usage().reserved.count, 0u);
  auto other = open_tier(metrics, {.capacity = MiB(8)});
  auto foreign = other->reserve(spec_of(n(1), 10), at(0));
  EXPECT_EQ(tier->commit(std::move(*foreign), std::vector<uint64_t>(1), 1, at(0)).error().code(), Code::invalid);
}

TEST_F(DramTierTest, OptionsOutOfRangeAreRefused) {
  auto code = [&](DramTier::Options options) {
    auto made = DramTier::open(options, make_leaf_lru(), metrics);
    return made ? Code::ok : made.error().code();
  };
  EXPECT_EQ(code({.capacity = KiB(128)}), Code::invalid);
  EXPECT_EQ(code({.capacity = Bytes{1ull << 46}}), Code::invalid);
  EXPECT_EQ(code({.capacity = MiB(8), .condemned_fraction = 0.6}), Code::invalid);
  EXPECT_EQ(code({.capacity = MiB(8), .protected_fraction = -1}), Code::invalid);
  EXPECT_EQ(code({.capacity = MiB(8), .protected_fraction = std::numeric_limits<double>::quiet_NaN()}), Code::invalid);
  EXPECT_EQ(code({.capacity = MiB(8), .events_max = 0}), Code::invalid);
}

TEST_F(DramTierTest, EvictsTheOldestAndLoadsStillFindItForAWhile) {
  fill(0, 7);   // about 1.6 MiB are to be free or condemned: the first has left
  EXPECT_FALSE(tier->contains(n(0).hash.id));
  auto view = tier->find(n(0).hash.id, at(8));
  bool still = view.has_value();
  EXPECT_TRUE(still && good(*view, n(0)));
  EXPECT_GT(tier->usage().condemned.count, 0u);
  EXPECT_TRUE(tier->contains(n(6).hash.id));
  fill(7, 12);
  EXPECT_FALSE(tier->find(n(0).hash.id, at(12)));   // its memory was needed
  EXPECT_LE(tier->usage().condemned.count, 2 * kMiB);
  std::vector<BlockId> evicted;
  for (auto& event : tier->take_events(1000)) {
    if (event.kind == EventKind::evict) evicted.push_back(event.id);
  }
  for (size_t i = 0; i < evicted.size(); ++i) EXPECT_EQ(evicted[i], n(int(i)).hash.id);
}

TEST_F(DramTierTest, ReadingRefreshesAndPeekingDoesNot) {
  fill(0, 6);
  ASSERT_TRUE(tier->find(n(0).hash.id, at(10)));
  ASSERT_TRUE(tier->find(n(1).hash.id, at(10), true));
  fill(6, 9);
  EXPECT_TRUE(tier->contains(n(0).hash.id));
  EXPECT_FALSE(tier->contains(n(1).hash.id));
}

TEST_F(DramTierTest, StoringAnEvictedBlockAgainIsAFreshStore) {
  fill(0, 7);
  ASSERT_TRUE(tier->find(n(0).hash.id, at(8)) && !tier->contains(n(0).hash.id));
  tier->take_events(1000);
  auto old = tier->find(n(0).hash.id, at(8))->generation;
  auto reservation = tier->reserve(spec_of(n(0), kMiB), at(9));
  ASSERT_TRUE(reservation);
  ASSERT_TRUE(fill_and_commit(*tier, std::move(*reservation), n(0), at(9)));
  auto view = tier->find(n(0).hash.id, at(10));
  ASSERT_TRUE(view && good(*view, n(0)));
  EXPECT_GT(view->generation, old);
  auto events = tier->take_events(1000);
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events.back().kind, EventKind::add);
  EXPECT_EQ(events.back().id, n(0).hash.id);
  for (auto& event : events) EXPECT_NE(event.kind, EventKind::drop);
  tier->usage();
}

TEST_F(DramTierTest, ChainsLoseTheirTailFirst) {
  BlockId parent;
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(store(*tier, n(i), kMiB, at(i), parent), Code::ok);
    parent = n(i).hash.id;
  }
  fill(10, 13);   // the chain is the oldest: its tail goes first
  for (int i = 14; i < 16; ++i) ASSERT_EQ(store(*tier, n(i), kMiB, at(i)), Code::ok);
  EXPECT_TRUE(tier->contains(n(0).hash.id));
  EXPECT_FALSE(tier->contains(n(3).hash.id));
  EXPECT_TRUE(tier->contains(n(10).hash.id));
}

TEST_F(DramTierTest, TouchProtectsTheRunWithinTheBudget) {
  BlockId parent;
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(store(*tier, n(i), kMiB, at(i), parent), Code::ok);
    parent = n(i).hash.id;
  }
  EXPECT_EQ(tier->touch(n(5).hash.id, 2, true, at(10)), 2u);          // 4 and 5
  EXPECT_EQ(tier->touch(n(5).hash.id, 6, true, at(11)), 2u);          // 0 and 1: from the first block on, until half of 8 MiB is protected
  EXPECT_EQ(tier->usage().protected_bytes.count, 4 * kMiB);
  EXPECT_EQ(tier->touch(n(99).hash.id, 6, true, at(11)), 0u);
  EXPECT_EQ(tier->touch(n(5).hash.id, 0, true, at(11)), 0u);
}

TEST_F(DramTierTest, NoPollerStopsEviction) {
  for (int i = 0; i < 100; ++i) {
    ASSERT_EQ(store(*tier, n(i), kMiB, at(i)), Code::ok) << i;
    for (int j = 0; j <= i; ++j) tier->touch(n(j).hash.id, 1, true, at(i));
    ASSERT_LE(tier->usage().protected_bytes.count, 4 * kMiB);
  }
  EXPECT_TRUE(tier->contains(n(0).hash.id));   // first come, first kept
}

TEST_F(DramTierTest, ProtectionEnds) {
  fill(0, 4);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(tier->touch(n(i).hash.id, 1, true, at(4)), 1u);
  fill(4, 9);
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(tier->contains(n(i).hash.id));
  for (int i = 20; i < 26; ++i) ASSERT_EQ(store(*tier, n(i), kMiB, at(i)), Code::ok);
  EXPECT_EQ(tier->usage().protected_bytes.count, 0u);
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(tier->contains(n(i).hash.id)) << i;
}

TEST_F(DramTierTest, FullOfWhatMayNotLeaveIsNoSpace) {
  fill(0, 4);
  for (int i = 0; i < 4; ++i) tier->touch(n(i).hash.id, 1, true, at(4));
  auto a = tier->reserve(spec_of(n(10), 2 * kMiB), at(5));
  ASSERT_TRUE(a);
  auto b = tier->reserve(spec_of(n(11), 2 * kMiB), at(5));
  ASSERT_FALSE(b);
  EXPECT_EQ(b.error().code(), Code::no_space);
  EXPECT_NE(b.error().message().find("4 MiB are protected"), std::string::npos) << b.error().text();
  for (int i = 0; i < 4; ++i) EXPECT_TRUE(tier->contains(n(i).hash.id));
  EXPECT_TRUE(tier->reserve(spec_of(n(11), kMiB), at(5)));
  EXPECT_EQ(metric("millpond_tier_no_space_total{tier=\"dram\",reason=\"protected\"}"), 1);
  EXPECT_TRUE(tier->reserve(spec_of(n(11), 2 * kMiB), at(20)));
}

TEST_F(DramTierTest, DroppedIsGoneAtOnce) {
  fill(0, 2);
  tier->take_events(100);
  EXPECT_TRUE(tier->drop(n(0).hash.id, DropReason::removed));
  EXPECT_FALSE(tier->drop(n(0).hash.id, DropReason::removed));
  EXPECT_FALSE(tier->find(n(0).hash.id, at(3)));
  auto events = tier->take_events(100);
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, EventKind::drop);
  EXPECT_EQ(events[0].reason, DropReason::removed);
  EXPECT_EQ(events[0].sequence, 3u);
}

TEST_F(DramTierTest, RemovedWhileItIsWrittenCannotCommit) {
  auto reservation = tier->reserve(spec_of(n(0), kMiB), at(0));
  ASSERT_TRUE(reservation);
  EXPECT_FALSE(tier->drop(n(0).hash.id, DropReason::removed));
  EXPECT_EQ(store(*tier, n(0), kMiB, at(1)), Code::ok);   // a store after the removal is another one
  EXPECT_EQ(fill_and_commit(*tier, std::move(*reservation), n(0), at(2)).error().code(), Code::stale);
  auto view = tier->find(n(0).hash.id, at(3));
  EXPECT_TRUE(view && good(*view, n(0)));
  EXPECT_EQ(tier->usage().reserved.count, 0u);
}

TEST_F(DramTierTest, HandleAndGenerationNameOneReservation) {
  std::set<std::pair<uint64_t, uint64_t>> seen;
  for (int i = 0; i < 50; ++i) {
    auto reservation = tier->reserve(spec_of(n(i % 2), kMiB), at(i));
    ASSERT_TRUE(reservation);
    EXPECT_EQ(reservation->generation().value >> 32, 1u);
    EXPECT_TRUE(seen.insert({reservation->handle(), reservation->generation().value}).second);
  }
}

TEST_F(DramTierTest, WipedNamespacesAreGoneAtOnceAndSweptLater) {
  fill(0, 4);
  NamespaceId space{n(0).hash.id.namespace_id};
  auto writing = tier->reserve(spec_of(n(5), kMiB), at(5));
  tier->take_events(100);
  tier->raise_generation(space, 1);
  tier->raise_generation(space, 0);   // never back
  EXPECT_EQ(tier->generation(space), 1u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(tier->find(n(i).hash.id, at(6)));
    EXPECT_FALSE(tier->contains(n(i).hash.id));
  }
  uint64_t cursor = 0;
  EXPECT_TRUE(tier->inventory(cursor, 100).empty());
  EXPECT_EQ(tier->reserve(spec_of(n(6), kMiB), at(6)).error().code(), Code::stale);
  EXPECT_EQ(fill_and_commit(*tier, std::move(*writing), n(5), at(6)).error().code(), Code::stale);
  while (tier->sweep(1)) {
  }
  EXPECT_EQ(tier->usage().blocks, 0u);
  auto events = tier->take_events(100);
  ASSERT_EQ(events.size(), 4u);
  for (auto& event : events) EXPECT_EQ(event.reason, DropReason::wiped);
  EXPECT_FALSE(tier->sweep(1));
  Named next("block 0", Namespace{.generation = 1});
  EXPECT_EQ(store(*tier, next, kMiB, at(7), {}, 1), Code::ok);
  EXPECT_TRUE(tier->contains(next.hash.id));
}

TEST_F(DramTierTest, RecheckKnowsGoodFromBad) {
  fill(0, 2);
  EXPECT_EQ(tier->recheck(n(0).hash.id), Code::ok);
  EXPECT_EQ(tier->recheck(n(9).hash.id), Code::miss);
  auto view = tier->find(n(0).hash.id, at(3));
  const_cast<std::byte&>(view->pieces[0][70'000]) ^= std::byte{1};   // the bit that flipped
  EXPECT_EQ(tier->recheck(n(0).hash.id), Code::corrupt);
  EXPECT_FALSE(tier->find(n(0).hash.id, at(3)));
  auto events = tier->take_events(100);
  EXPECT_EQ(events.back().kind, EventKind::drop);
  EXPECT_EQ(events.back().reason, DropReason::corrupt);
  EXPECT_EQ(metric("millpond_tier_recheck_total{tier=\"dram\",result=\"corrupt\"}"), 1);
}

TEST_F(DramTierTest, RecheckSeesAHeaderThatFlipped) {
  fill(0, 1);
  auto found = scan(tier->arena());
  ASSERT_EQ(found->blocks.size(), 1u);
  // Somewhere in a header page stands the root of the block: flip a bit of it.
  auto bytes = tier->arena().bytes();
  uint64_t root = found->blocks[0].root;
  auto place = std::search(bytes.begin(), bytes.end(), reinterpret_cast<std::byte*>(&root), reinterpret_cast<std::byte*>(&root) + 8);
  ASSERT_NE(place, bytes.end());
  *place ^= std::byte{4};
  EXPECT_EQ(tier->recheck(n(0).hash.id), Code::corrupt);
  tier->usage();
}

TEST_F(DramTierTest, EventsThatNobodyTakesAreLostAndSaid) {
  tier = open_tier(metrics, {.capacity = MiB(8), .events_max = 4});
  fill(0, 4);
  EXPECT_FALSE(tier->events_lost());
  fill(4, 6);
  EXPECT_TRUE(tier->events_lost());
  EXPECT_FALSE(tier->events_lost());
  auto events = tier->take_events(100);
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events.back().sequence, 6u);
  EXPECT_EQ(tier->last_event(), 6u);
  EXPECT_EQ(metric("millpond_tier_events_lost_total{tier=\"dram\"}"), 4);
}

TEST_F(DramTierTest, WakesOncePerBatch) {
  int wakes = 0;
  fill(0, 1);
  tier->on_events([&] { ++wakes; });
  EXPECT_EQ(wakes, 1);   // something was there already
  fill(1, 3);
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(tier->take_events(2).size(), 2u);
  fill(3, 4);
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(tier->take_events(100).size(), 2u);
  EXPECT_TRUE(tier->take_events(100).empty());
  tier->drop(n(0).hash.id, DropReason::removed);
  EXPECT_EQ(wakes, 2);
  tier->on_events({});
}

TEST_F(DramTierTest, InventoryWalksEverythingInChunks) {
  for (int i = 0; i < 100; ++i) ASSERT_EQ(store(*tier, n(i), 4096, at(i)), Code::ok);
  std::set<BlockId> seen;
  uint64_t cursor = 0;
  int chunks = 0;
  do {
    for (auto& info : tier->inventory(cursor, 7)) {
      EXPECT_TRUE(seen.insert(info.id).second);
      EXPECT_EQ(info.length, 4096u);
    }
    ++chunks;
  } while (cursor != 0);
  EXPECT_EQ(seen.size(), 100u);
  EXPECT_GE(chunks, 15);
}

TEST_F(DramTierTest, AReservationMayOutliveItsTier) {
  auto reservation = tier->reserve(spec_of(n(0), kMiB), at(0));
  ASSERT_TRUE(reservation);
  tier.reset();
  std::memset(reservation->pieces()[0].data(), 1, 100);
  EXPECT_GT(metrics.text().size(), 0u);   // gauges of a tier that is gone
}

TEST_F(DramTierTest, VictimAgeIsTheCurrencyOfPlacement) {
  EXPECT_EQ(tier->victim_age(at(5)), Duration::max());
  fill(0, 8);
  auto oldest = tier->contains(n(1).hash.id) ? 1 : 2;
  EXPECT_EQ(tier->victim_age(at(20)), std::chrono::seconds(20 - oldest));
}

TEST_F(DramTierTest, ARestartFindsTheBlocks) {
  fill(0, 3);
  tier->drop(n(1).hash.id, DropReason::removed);
  auto found = scan(tier->arena());
  ASSERT_TRUE(found);
  ASSERT_EQ(found->blocks.size(), 2u);
  for (auto& block : found->blocks) {
    Named name(block.key);
    EXPECT_EQ(block.id, name.hash.id);
    auto view = tier->find(block.id, at(5));
    EXPECT_EQ(view->sums, block.sums);
    EXPECT_EQ(view->root, block.root);
  }
}

TEST_F(DramTierTest, FaultsInTheBackground) {
  fill(0, 1);
  while (tier->fault_next()) {
  }
  EXPECT_EQ(tier->arena().pages_faulted(), tier->arena().page_count());
  EXPECT_TRUE(good(*tier->find(n(0).hash.id, at(1)), n(0)));
}

TEST(TierSettings, AreStatedOnce) {
  DramTier::Options options;
  auto section = describe(options);
  EXPECT_EQ(section.name(), "dram");
  for (auto& setting : section.settings()) {
    if (setting.name == "memory") {
      EXPECT_TRUE(setting.set("64MiB").ok());
    }
  }
  EXPECT_EQ(options.capacity, MiB(64));
}

}  // namespace
}  // namespace millpond::tier
