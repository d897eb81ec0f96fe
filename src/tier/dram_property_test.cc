// Goal: whatever is done to a tier in whatever order, what it says, what it holds and what it returns agree.
// Method: a seeded random workload (stores in chains, two writers, loads, touches, removals, wipes, aborts) on a small
// tier; after each step the events are replayed into a model, which knows what may leave and what every byte must be.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "base/log.h"
#include "tier/tier_test_support.h"

namespace millpond::tier {
namespace {

using namespace test;

struct Workload {
  struct Known {
    uint64_t length;
    BlockId parent;
    uint32_t generation;
    Time protected_until;
  };
  struct Writing {
    Named name;
    Reservation reservation;
    BlockId parent;
    uint32_t generation;
    bool dropped = false;
  };

  explicit Workload(uint64_t seed) : random(seed) {
    options.capacity = MiB(random.chance(0.5) ? 6 : 16);
    options.page_size = random.chance(0.3) ? KiB(128) : KiB(64);
    options.condemned_fraction = random.chance(0.2) ? 0 : 0.1;
    options.protected_fraction = random.chance(0.5) ? 0.5 : 0.85;
    options.protection = std::chrono::seconds(3);
    tier = open_tier(metrics, options);
    protected_max = uint64_t(double(options.capacity.count) * options.protected_fraction);
  }

  Named pick() {
    uint32_t number = uint32_t(random.below(60));
    return Named("key " + std::to_string(number), Namespace{.generation = generation});
  }
  uint64_t length_of(const Named& name) {   // one length per key, so that loads can be checked
    switch (name.hash.id.low % 5) {
      case 0: return 1 + name.hash.id.high % 3000;
      case 1: return 1 + name.hash.id.high % 60'000;
      case 2: return 256 << 10;
      case 3: return 1 + name.hash.id.high % 500'000;
      default: return name.hash.id.high % 3 == 0 ? 3 << 20 : 1 << 20;
    }
  }
  NamespaceId space() { return NamespaceId{Namespace{}.id()}; }

  // Replays what the tier said since the last step.
  void replay() {
    for (auto& event : tier->take_events(~size_t(0))) {
      ASSERT_EQ(event.sequence, ++sequence);
      if (event.kind == EventKind::add) {
        ASSERT_TRUE(adding && adding->first == event.id) << "an add that nobody made";
        ASSERT_TRUE(here.emplace(event.id, adding->second).second) << "added twice";
        ASSERT_EQ(event.length, adding->second.length);
        condemned.erase(event.id);
        continue;
      }
      auto block = here.find(event.id);
      ASSERT_NE(block, here.end()) << "left without having come";
      if (event.kind == EventKind::evict) {
        ASSERT_FALSE(block->second.protected_until > now) << "a protected block was evicted";
        ASSERT_GE(block->second.generation, generation) << "a wiped block was evicted";
        for (auto& [id, other] : here) ASSERT_FALSE(other.parent == event.id && adopted.contains(id)) << "a parent was evicted before its child";
        condemned.insert(event.id);
      } else {
        condemned.erase(event.id);
      }
      for (auto& [id, other] : here) {
        if (other.parent == event.id) adopted.erase(id);
      }
      adopted.erase(event.id);
      here.erase(block);
    }
    adding.reset();
  }

  void store() {
    Named name = pick();
    if (!here.empty() && random.chance(0.6)) {
      auto it = std::next(here.begin(), long(random.below(here.size())));
      parent_id = it->first;
    } else {
      parent_id = {};
    }
    if (parent_id == name.hash.id) parent_id = {};
    bool known = here.contains(name.hash.id);
    bool writing = std::ranges::any_of(open, [&](auto& w) { return w.reservation.id() == name.hash.id && !w.dropped; });
    uint64_t length = length_of(name);
    auto reservation = tier->reserve(spec_of(name, length, parent_id, generation), now);
    replay();
    if (known || writing) {
      ASSERT_FALSE(reservation);
      ASSERT_EQ(reservation.error().code(), Code::exists);
      return;
    }
    if (!reservation) {
      ASSERT_EQ(reservation.error().code(), Code::no_space) << reservation.error().text();
      ++no_space;
      return;
    }
    ASSERT_EQ(total_bytes(reservation->pieces()), length);
    open.push_back({name, std::move(*reservation), parent_id, generation});
  }

  void finish(size_t at) {
    Writing writing = std::move(open[at]);
    open.erase(open.begin() + long(at));
    if (random.chance(0.1)) return;   // aborted
    BlockId id = writing.name.hash.id;
    bool stale = writing.dropped || writing.generation < generation;
    bool exists = !stale && here.contains(id);
    adding = {id, Known{writing.reservation.length(), writing.parent, writing.generation, {}}};
    bool parent_here = here.contains(writing.parent) && here.at(writing.parent).generation >= generation;
    auto done = fill_and_commit(*tier, std::move(writing.reservation), writing.name, now);
    ASSERT_EQ(done ? Code::ok : done.error().code(), stale ? Code::stale : exists ? Code::exists : Code::ok);
    if (done && parent_here) adopted.insert(id);
    replay();
    if (done) {
      ASSERT_EQ(*done, sequence);
      ASSERT_TRUE(here.contains(id));
    }
  }

  void load() {
    Named name = pick();
    auto view = tier->find(name.hash.id, now, random.chance(0.3));
    if (here.contains(name.hash.id)) {
      ASSERT_TRUE(view);
    }
    if (view) {
      ASSERT_TRUE(here.contains(name.hash.id) || condemned.contains(name.hash.id)) << "found what was never stored, or dropped";
      ASSERT_TRUE(good(*view, name));
      ASSERT_EQ(tier->key_of(name.hash.id), std::optional(name.key));
    }
    ASSERT_EQ(tier->contains(name.hash.id), here.contains(name.hash.id));
  }

  void touch() {
    if (here.empty()) return;
    BlockId id = std::next(here.begin(), long(random.below(here.size())))->first;
    uint32_t length = 1 + uint32_t(random.below(20));
    uint32_t count = tier->touch(id, length, true, now);
    std::vector<BlockId> run;
    for (BlockId at = id; run.size() < length && here.contains(at) && here.at(at).generation >= generation; at = here.at(at).parent) run.push_back(at);
    ASSERT_LE(count, run.size());
    for (uint32_t i = 0; i < count; ++i) here.at(run[run.size() - 1 - i]).protected_until = now + options.protection;
  }

  void drop() {
    Named name = pick();
    bool known = here.contains(name.hash.id), maybe = condemned.contains(name.hash.id);
    for (auto& writing : open) writing.dropped |= writing.name.hash.id == name.hash.id;
    bool was = tier->drop(name.hash.id, DropReason::removed);
    ASSERT_TRUE(known ? was : maybe || !was);
    replay();
    condemned.erase(name.hash.id);
    ASSERT_FALSE(here.contains(name.hash.id));
    ASSERT_FALSE(tier->find(name.hash.id, now));
  }

  void wipe() {
    tier->raise_generation(space(), ++generation);
    uint64_t cursor = 0;
    ASSERT_TRUE(tier->inventory(cursor, 1000).empty());
  }

  void compare() {
    std::set<BlockId> said, held;
    for (auto& [id, block] : here) {
      if (block.generation >= generation) said.insert(id);
    }
    uint64_t cursor = 0;
    do {
      for (auto& info : tier->inventory(cursor, 1 + random.below(20))) held.insert(info.id);
    } while (cursor != 0);
    ASSERT_EQ(said, held);
  }

  void step() {
    now = now + std::chrono::milliseconds(random.below(200));
    uint64_t what = random.below(100);
    if (what < 35) store();
    else if (what < 65) { if (!open.empty()) finish(random.below(open.size())); }
    else if (what < 80) load();
    else if (what < 92) touch();
    else if (what < 96) drop();
    else if (what < 97) { if (random.chance(0.1)) wipe(); }
    else { tier->sweep(3); replay(); }
    while (open.size() > 6) finish(0);
    auto usage = tier->usage();   // checks that every byte is accounted for
    ASSERT_LE(usage.protected_bytes.count, protected_max);
    uint64_t reserved = 0;
    for (auto& writing : open) reserved += writing.reservation.length();
    ASSERT_EQ(usage.reserved.count, reserved);
    ASSERT_EQ(usage.blocks, here.size());
  }

  Random random;
  Metrics metrics;
  DramTier::Options options;
  std::unique_ptr<DramTier> tier;
  uint64_t protected_max = 0;
  Time now = at(1);
  uint32_t generation = 0;
  uint64_t sequence = 0;
  uint64_t no_space = 0;
  BlockId parent_id;
  std::map<BlockId, Known> here;          // what the events say
  std::set<BlockId> condemned;            // evicted, not known to be gone
  std::set<BlockId> adopted;              // children whose parent was here when they came, and has been since
  std::optional<std::pair<BlockId, Known>> adding;
  std::vector<Writing> open;
};

TEST(DramTierProperty, EverythingAgreesAtEachStep) {
  log::set_level(log::Level::warn);
  uint64_t evictions = 0, no_space = 0, condemned_hits = 0;
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE(seed);
    Workload workload(seed);
    for (int i = 0; i < 600; ++i) {
      workload.step();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
      if (i % 20 == 0) workload.compare();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << " step " << i;
    }
    auto values = workload.metrics.values();
    evictions += uint64_t(values.at("millpond_tier_evicted_blocks_total{tier=\"dram\"}"));
    condemned_hits += uint64_t(values.at("millpond_tier_condemned_hits_total{tier=\"dram\"}"));
    no_space += workload.no_space;
    workload.open.clear();
    while (workload.tier->sweep(100)) {
    }
    workload.replay();
    workload.compare();
    for (auto& [id, block] : std::map(workload.here)) {
      EXPECT_TRUE(workload.tier->drop(id, DropReason::removed));
    }
    EXPECT_EQ(workload.tier->usage().live.count, 0u);
    EXPECT_EQ(workload.tier->usage().reserved.count, 0u);
  }
  log::set_level(log::Level::info);
  // A workload that never came to these would prove nothing.
  EXPECT_GT(evictions, 500u);
  EXPECT_GT(condemned_hits, 10u);
  EXPECT_GT(no_space, 10u);
}

}  // namespace
}  // namespace millpond::tier
