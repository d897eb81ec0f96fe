// Goal: whatever is lost, repeated or late between a node and its master, after quiet the master knows exactly what
// stands in the tier; a store that waits ends, and never waits for a master that is away.
// Method: the real tier in a small arena, the Advertiser alone, answers made by hand; then whole nodes on lossy channels
// against a reduced master (test_master.h), by seed.
#include "node/advertiser.h"

#include <gtest/gtest.h>

#include "node/test_cluster.h"

namespace millpond::node {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

struct Stream : testing::Test {
  Stream() { open({}); }
  void open(Advertiser::Options options, size_t events_max = 1 << 20) {
    tier = *tier::DramTier::open({.capacity = MiB(8), .hugepages = false, .events_max = events_max}, tier::make_leaf_lru(), metrics);
    advertiser = std::make_unique<Advertiser>(options, *tier);
  }
  uint64_t store(const std::string& key, uint64_t root = 7) {
    auto id = hash_key(kSpace, key).id;
    auto room = tier->reserve({.id = id, .key = key, .length = 100}, now);
    EXPECT_TRUE(room) << (room ? "" : room.error().text());
    return *tier->commit(*std::move(room), std::vector<uint64_t>{1}, root, now);
  }
  void join(uint64_t term = 1, uint32_t round = 1) {
    auto send = advertiser->next(now, 0);
    ASSERT_TRUE(send && !send->batch);
    ASSERT_TRUE(advertiser->join_answered(send->call, Code::ok, term, round, now));
  }
  // Sends what is due and answers it; false when nothing is due.
  bool step(AdvertAnswer add = AdvertAnswer::first) {
    auto send = advertiser->next(now, 0);
    if (!send || !send->batch) return false;
    answer(*send, add);
    return true;
  }
  void answer(const Advertiser::Send& send, AdvertAnswer add = AdvertAnswer::first) {
    std::vector<uint8_t> answers;
    for (auto& item : send.batch->items) answers.push_back(uint8_t(item.kind == AdvertKind::add || item.kind == AdvertKind::inventory ? add : AdvertAnswer::noted));
    advertiser->batch_answered(send.call, Code::ok, send.batch->sequence_first + answers.size() - 1, answers, now);
  }
  std::shared_ptr<std::vector<Visibility>> wait(std::vector<uint64_t> events, Duration limit = seconds(5)) {
    auto seen = std::make_shared<std::vector<Visibility>>();
    advertiser->wait(std::move(events), now + limit, [seen](std::vector<Visibility> outcomes) { *seen = std::move(outcomes); }, now);
    return seen;
  }
  void finish() {
    for (auto& one : advertiser->take_done()) one.done(std::move(one.outcomes));
  }

  Time now{seconds(10)};
  Metrics metrics;
  std::unique_ptr<tier::DramTier> tier;
  std::unique_ptr<Advertiser> advertiser;
};

TEST_F(Stream, EventsComeBeforeTheTable) {
  store("a");
  join();
  store("b");
  auto send = advertiser->next(now, 42);
  ASSERT_TRUE(send && send->batch);
  auto& batch = *send->batch;
  EXPECT_EQ(batch.sequence_first, 1u);
  EXPECT_EQ(batch.removals_seen, 42u);
  EXPECT_TRUE(batch.inventory_complete);
  ASSERT_EQ(batch.items.size(), 4u);
  EXPECT_EQ(batch.items[0].kind, AdvertKind::add);
  EXPECT_EQ(batch.items[1].kind, AdvertKind::add);
  EXPECT_EQ(batch.items[2].kind, AdvertKind::inventory);
  EXPECT_FALSE(advertiser->next(now, 42)) << "one under way";
  answer(*send);
  EXPECT_TRUE(advertiser->inventory_complete());
  EXPECT_EQ(advertiser->unadvertised(), 0u);
  EXPECT_FALSE(advertiser->next(now, 42)) << "nothing to tell";
}

TEST_F(Stream, AnEmptyNodeSaysThatItIsEmpty) {
  join();
  auto send = advertiser->next(now, 0);
  ASSERT_TRUE(send && send->batch);
  EXPECT_TRUE(send->batch->items.empty());
  EXPECT_TRUE(send->batch->inventory_complete);
}

TEST_F(Stream, ABusyWriterCannotStarveTheInventory) {
  open({.batch_max = 16});
  for (int i = 0; i < 64; ++i) store("old" + std::to_string(i));
  join();
  int batches = 0;
  for (; !advertiser->inventory_complete() && batches < 1000; ++batches) {
    for (int i = 0; i < 6; ++i) store("new" + std::to_string(batches * 6 + i));
    step();
  }
  EXPECT_LT(batches, 100);
}

// Found by millpond_sim --seed 1356: a store while the master was away, removed after the join, its add told with
// removals_seen of after the removal, its drop a batch later; in between lookups found a removed block.
TEST_F(Stream, WhatHasGoneIsNotToldAsAdded) {
  open({.batch_max = 1});
  join();
  step();
  store("a");
  store("b");
  tier->drop(hash_key(kSpace, "a").id, tier::DropReason::removed);
  std::vector<AdvertKind> told;
  for (int i = 0; i < 3; ++i) {
    auto send = advertiser->next(now, 9);
    ASSERT_TRUE(send && send->batch && send->batch->items.size() == 1u);
    told.push_back(send->batch->items[0].kind);
    answer(*send);
  }
  EXPECT_EQ(told, (std::vector{AdvertKind::drop, AdvertKind::add, AdvertKind::drop}));
  EXPECT_EQ(advertiser->unadvertised(), 0u);
}

TEST_F(Stream, TheSameBatchGoesAgainAfterATimeout) {
  join();
  step();
  store("a");
  auto first = advertiser->next(now, 5);
  ASSERT_TRUE(first && first->batch);
  uint64_t sequence = first->batch->sequence_first;
  advertiser->call_failed(first->call, Code::timed_out, now);
  EXPECT_TRUE(advertiser->master_away());
  store("b");
  auto second = advertiser->next(now, 9);
  ASSERT_TRUE(second && second->batch);
  EXPECT_EQ(second->batch->sequence_first, sequence);
  EXPECT_EQ(second->batch->items.size(), 1u) << "as it was: its answer may be on record";
  EXPECT_EQ(second->batch->removals_seen, 5u);
  answer(*first);
  EXPECT_NE(advertiser->unadvertised(), 0u) << "the answer of an earlier call does not count";
  answer(*second);
  EXPECT_FALSE(advertiser->master_away());
  EXPECT_TRUE(step()) << "then b";
  EXPECT_EQ(advertiser->unadvertised(), 0u);
}

TEST_F(Stream, AStoreIsVisibleWhenItsEventIsAnswered) {
  join();
  step();
  auto a = wait({store("a")});
  auto send = advertiser->next(now, 0);
  auto b = wait({store("b")});
  answer(*send);
  finish();
  EXPECT_EQ(*a, std::vector{Visibility::visible});
  EXPECT_TRUE(b->empty()) << "its event travels in the next batch";
  step();
  finish();
  EXPECT_EQ(*b, std::vector{Visibility::visible});
}

TEST_F(Stream, RefusedDropsTheCopyAndTheCallerIsTold) {
  join();
  step();
  auto seen = wait({store("a")});
  step(AdvertAnswer::refused);
  finish();
  EXPECT_EQ(*seen, std::vector{Visibility::exists});
  EXPECT_FALSE(tier->contains(hash_key(kSpace, "a").id));
  EXPECT_EQ(advertiser->counts().refused, 1u);
}

TEST_F(Stream, RefusedSparesALaterCopyOfOtherBytes) {
  join();
  step();
  store("a", 7);
  auto send = advertiser->next(now, 0);
  tier->drop(hash_key(kSpace, "a").id, tier::DropReason::removed);
  store("a", 8);
  answer(*send, AdvertAnswer::refused);
  EXPECT_TRUE(tier->contains(hash_key(kSpace, "a").id));
}

TEST_F(Stream, WaitsEndTogetherWhenTheMasterMissesItsDeadline) {
  join();
  step();
  auto a = wait({store("a")});
  auto send = advertiser->next(now, 0);
  advertiser->call_failed(send->call, Code::timed_out, now);
  finish();
  EXPECT_EQ(*a, std::vector{Visibility::pending});
  auto b = wait({store("b")});
  finish();
  EXPECT_EQ(*b, std::vector{Visibility::pending}) << "nobody waits for a master that is away";
  EXPECT_EQ(advertiser->counts().pending, 2u);
}

TEST_F(Stream, AWaitEndsAtItsOwnDeadline) {
  join();
  step();
  auto a = wait({store("a")}, milliseconds(30));
  auto send = advertiser->next(now, 0);
  EXPECT_LE(advertiser->wake_at(), now + milliseconds(30));
  now = now + milliseconds(31);
  advertiser->tick(now);
  finish();
  EXPECT_EQ(*a, std::vector{Visibility::pending});
  EXPECT_FALSE(advertiser->master_away()) << "it may yet answer";
  answer(*send);
  finish();
  EXPECT_EQ(a->size(), 1u) << "ended once";
}

TEST_F(Stream, WaitersAreBounded) {
  open({.waiters_max = 2});
  join();
  step();
  auto a = wait({store("a")}), b = wait({store("b")}), c = wait({store("c")});
  finish();
  EXPECT_TRUE(a->empty() && b->empty());
  EXPECT_EQ(*c, std::vector{Visibility::pending});
}

TEST_F(Stream, EventsUnderWayAreToldAgainInTheNextRound) {
  join();
  step();
  store("a");
  auto send = advertiser->next(now, 0);
  tier->drop(hash_key(kSpace, "a").id, tier::DropReason::removed);
  advertiser->call_failed(send->call, Code::unavailable, now);
  EXPECT_FALSE(advertiser->next(now, 0)) << "one join per join_retry";
  now = now + seconds(1);
  join(1, 2);
  auto again = advertiser->next(now, 0);
  ASSERT_TRUE(again && again->batch);
  EXPECT_EQ(again->batch->sequence_first, 1u);
  ASSERT_EQ(again->batch->items.size(), 2u);
  EXPECT_EQ(again->batch->items[0].kind, AdvertKind::drop) << "its add, told as what became of it";
  EXPECT_EQ(again->batch->items[1].kind, AdvertKind::drop);
}

TEST_F(Stream, LostEventsMeanAFullInventory) {
  open({}, /*events_max=*/8);
  join();
  step();
  for (int i = 0; i < 20; ++i) store("k" + std::to_string(i));
  now = now + seconds(1);
  auto send = advertiser->next(now, 0);
  ASSERT_TRUE(send);
  EXPECT_EQ(send->batch, nullptr) << "joins again";
  ASSERT_TRUE(advertiser->join_answered(send->call, Code::ok, 1, 2, now));
  auto batch = advertiser->next(now, 0);
  ASSERT_TRUE(batch && batch->batch);
  std::set<uint64_t> told;
  for (auto& item : batch->batch->items) {
    if (item.kind == AdvertKind::inventory) told.insert(item.id.low);
  }
  EXPECT_EQ(told.size(), 20u);
  answer(*batch);
  EXPECT_EQ(advertiser->unadvertised(), 0u);
  EXPECT_EQ(advertiser->counts().resyncs, 1u);
}

// Found by seed 14 of the storm: the add under way was told again, its drop was among the lost.
TEST_F(Stream, AnAddIsNotToldAgainWhenItsDropMayBeLost) {
  open({}, /*events_max=*/8);
  join();
  step();
  store("a");
  auto send = advertiser->next(now, 0);
  tier->drop(hash_key(kSpace, "a").id, tier::DropReason::removed);
  for (int i = 0; i < 8; ++i) store("k" + std::to_string(i));
  advertiser->call_failed(send->call, Code::unavailable, now);
  now = now + seconds(1);
  join(1, 2);
  auto again = advertiser->next(now, 0);
  ASSERT_TRUE(again && again->batch);
  for (auto& item : again->batch->items) EXPECT_NE(item.id, hash_key(kSpace, "a").id);
}

TEST_F(Stream, ALowerTermIsNotJoined) {
  join(5);
  step();
  advertiser->rejoin(now);
  now = now + seconds(1);
  auto send = advertiser->next(now, 0);
  ASSERT_TRUE(send && !send->batch);
  EXPECT_FALSE(advertiser->join_answered(send->call, Code::ok, 4, 1, now));
  EXPECT_EQ(advertiser->state(), Advertiser::State::away);
  EXPECT_FALSE(advertiser->accepts_term(4, now));
  EXPECT_TRUE(advertiser->accepts_term(6, now));
}

TEST_F(Stream, ALaterTermEndsTheRound) {
  join(5);
  step();
  EXPECT_TRUE(advertiser->accepts_term(6, now));
  EXPECT_EQ(advertiser->state(), Advertiser::State::away);
}

TEST_F(Stream, AnAnswerThatDoesNotFitMeansJoinAgain) {
  join();
  step();
  store("a");
  auto send = advertiser->next(now, 0);
  advertiser->batch_answered(send->call, Code::ok, 99, std::vector<uint8_t>{0}, now);
  EXPECT_EQ(advertiser->state(), Advertiser::State::away);
  EXPECT_EQ(advertiser->counts().resyncs, 1u);
}

TEST_F(Stream, AStaleMasterIsNotFlooded) {
  int joins = 0;
  for (Time end = now + seconds(10); now < end; now = now + milliseconds(10)) {
    while (auto send = advertiser->next(now, 0)) {
      if (send->batch) {
        advertiser->batch_answered(send->call, Code::stale, 0, {}, now);
      } else {
        ++joins;
        advertiser->join_answered(send->call, Code::ok, 1, 1, now);
      }
    }
  }
  EXPECT_LE(joins, 21);
  EXPECT_GE(joins, 19);
}

// Two nodes, lossy and repeating channels, stores, drops, evictions, other bytes under one key, a master that forgets
// everything in between; then quiet.
void storm(uint64_t seed) {
  SCOPED_TRACE("seed " + std::to_string(seed));
  World world(seed);
  auto master = std::make_unique<TestMaster>(world, 1);
  Options options;
  options.advertise_batch_max = 8 + size_t(world.random.below(64));
  if (world.random.chance(0.3)) options.dram.events_max = 16;   // overflows happen
  TestNode one(world, 1, MiB(2), 1, options), two(world, 2, MiB(2), 1, options);
  world.faulty.insert("127.0.0.1:7700");
  uint64_t next_term = 2;
  std::map<std::string, std::shared_ptr<std::optional<Code>>> writes;
  for (int i = 0; i < 400; ++i) {
    if (i % 50 == 0) {
      world.faults = {.lose_request = world.random.unit() * 0.3, .lose_reply = world.random.unit() * 0.3, .repeat = world.random.unit() * 0.5,
                      .delay_max = milliseconds(world.random.below(200)), .refuse = world.random.chance(0.1), .silent = world.random.chance(0.1)};
    }
    if (world.random.chance(0.005)) master = std::make_unique<TestMaster>(world, next_term++);
    TestNode& node = world.random.chance(0.5) ? one : two;
    std::string key = "k" + std::to_string(world.random.below(60));
    if (world.random.chance(0.7)) {
      uint64_t salt = world.random.chance(0.2) ? world.random.below(2) : 0;
      writes[std::to_string(i)] = node.write(key, bytes_for(key, 1000 + world.random.below(2) * 200'000, salt), world.random.chance(0.7));
    } else {
      node.node->dram().drop(hash_key(kSpace, key).id, tier::DropReason::removed);
    }
    world.run_for(milliseconds(world.random.below(100)));
  }
  world.faulty.clear();
  world.run_for(seconds(20));
  for (auto& [name, outcome] : writes) EXPECT_TRUE(outcome->has_value()) << "write " << name << " never ended";
  for (TestNode* node : {&one, &two}) {
    EXPECT_TRUE(node->node->state().inventory_complete);
    EXPECT_EQ(node->node->state().unadvertised, 0u);
    auto known = master->of(node->runtime.identity().node_id.value), here = table_of(node->node->dram());
    for (auto& [id, replica] : known) EXPECT_TRUE(here.contains(id)) << text(id) << " is known, but not here";
    for (auto& [id, replica] : here) EXPECT_TRUE(known.contains(id)) << text(id) << " is here, but not known";
    EXPECT_EQ(known, here);
  }
}

TEST(StreamStorm, AfterQuietTheMasterKnowsWhatStandsInTheTiers) {
  for (uint64_t seed = 1; seed <= 30 && !testing::Test::HasFailure(); ++seed) storm(seed);
}

}  // namespace
}  // namespace millpond::node
