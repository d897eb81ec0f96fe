// Goal: many threads at once see the bytes that were stored, or a miss; nothing is counted twice or lost.
// Method: 64 threads store, load, touch, remove and take events on a tier too small for them all. A copy that does not
// verify is allowed only if the block has left meanwhile. Under ThreadSanitizer payload is not read: a reader without a
// pin races with the next writer by design, and its checksum decides.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "base/log.h"
#include "tier/tier_test_support.h"

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define MP_TSAN 1
#endif
#endif

namespace millpond::tier {
namespace {

using namespace test;

#ifdef MP_TSAN
constexpr bool kReadPayload = false;
constexpr int kSteps = 60;
#else
constexpr bool kReadPayload = true;
constexpr int kSteps = 200;
#endif

TEST(DramTierStress, SixtyFourThreads) {
  log::set_level(log::Level::warn);
  Metrics metrics;
  auto tier = open_tier(metrics, {.capacity = MiB(12), .events_max = 1 << 20});
  std::atomic<uint64_t> wakes{0}, wrong{0}, raced{0}, loaded{0}, stored{0};
  tier->on_events([&] { ++wakes; });
  std::atomic<int64_t> clock{0};
  auto work = [&](int thread) {
    Random random(uint64_t(thread) + 1);
    for (int step = 0; step < kSteps; ++step) {
      Time now{std::chrono::milliseconds(++clock)};
      Named name("key " + std::to_string(random.below(150)));
      uint64_t length = name.hash.id.low % 3 == 0 ? 3000 : 1 + name.hash.id.low % 200'000;
      switch (random.below(8)) {
        case 0:
        case 1:
        case 2: {
          Code code = store(*tier, name, length, now);
          if (code == Code::ok) ++stored;
          else if (code != Code::exists && code != Code::no_space && code != Code::stale) ++wrong;
          break;
        }
        case 3:
        case 4:
        case 5: {
          auto view = tier->find(name.hash.id, now);
          if (!view || !kReadPayload) break;
          ByteVector landing(view->length);
          std::vector<MutableByteSpan> target{landing};
          auto sums = copy_and_sum_target(view->pieces, target);
          if (sums == view->sums && checksum_root(sums, view->length, name.hash.seed) == view->root) {
            ++loaded;
            if (landing != bytes_of(name, view->length)) ++wrong;
          } else {
            ++raced;
            auto again = tier->find(name.hash.id, now, true);
            if (again && again->generation == view->generation) ++wrong;
          }
          break;
        }
        case 6:
          tier->touch(name.hash.id, 3, true, now);
          tier->contains(name.hash.id);
          if (kReadPayload && tier->recheck(name.hash.id) == Code::corrupt) ++wrong;
          break;
        default:
          if (random.chance(0.3)) tier->drop(name.hash.id, DropReason::removed);
          tier->usage();
          uint64_t cursor = 0;
          tier->inventory(cursor, 10);
          if (thread == 0) tier->fault_next();   // from one background thread
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 64; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0u);
  EXPECT_GT(stored, 100u);
  if (kReadPayload) {
    EXPECT_GT(loaded, 100u);
  }
  EXPECT_GE(wakes, 1u);
  std::set<BlockId> said, held;
  uint64_t sequence = 0;
  for (auto& event : tier->take_events(~size_t(0))) {
    ASSERT_EQ(event.sequence, ++sequence);
    if (event.kind == EventKind::add) {
      ASSERT_TRUE(said.insert(event.id).second);
    } else {
      ASSERT_EQ(said.erase(event.id), 1u);
    }
  }
  uint64_t cursor = 0;
  for (auto& info : tier->inventory(cursor, 100'000)) held.insert(info.id);
  EXPECT_EQ(said, held);
  EXPECT_EQ(tier->usage().reserved.count, 0u);
  log::set_level(log::Level::info);
}

}  // namespace
}  // namespace millpond::tier
