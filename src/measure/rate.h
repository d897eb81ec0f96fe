// How fast calls go: bytes per second over all workers, and how long one call takes.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "base/time.h"

namespace millpond::measure {

struct Rate {
  uint64_t calls = 0;
  uint64_t bytes = 0;
  Duration elapsed{0};                   // first call begun to last call ended
  Duration p50{0}, p99{0}, worst{0};     // of one call
  double gigabytes_per_second() const { return elapsed.count() ? double(bytes) / double(elapsed.count()) : 0; }
};

// The smallest latency that at least the fraction q of the calls did not exceed; 0 of none. Reorders `latencies`.
Duration percentile(std::vector<Duration>& latencies, double q);

// One call of worker `worker`, its `round`-th: the bytes it moved, or kDone when this worker has no more to do.
using Call = std::function<uint64_t(size_t worker, uint64_t round)>;
inline constexpr uint64_t kDone = ~0ull;

// Calls from `workers` threads at once until each is done or `limit` has passed.
Rate measure(size_t workers, Duration limit, const Call& call);

}  // namespace millpond::measure
