// What caches without a limit would reach on a trace: the mark to measure a pool against.
#pragma once
#include <cstdint>

#include "replay/trace.h"

namespace millpond::replay {

struct Bound {
  uint64_t tokens_total = 0;
  uint64_t tokens_cached = 0;      // full blocks seen before
  double hit_rate() const { return tokens_total ? double(tokens_cached) / double(tokens_total) : 0; }
};

// One infinite cache that all engines share.
Bound infinite_shared(const Trace& trace);
// Every engine with an infinite cache of its own, turns dispatched as the replay does.
Bound infinite_alone(const Trace& trace, uint32_t engines);

}  // namespace millpond::replay
