#include "replay/bound.h"

#include <unordered_set>
#include <vector>

#include "replay/dispatch.h"

namespace millpond::replay {
namespace {

uint64_t use(std::unordered_set<uint64_t>& cache, const Turn& turn) {
  uint64_t hits = 0;
  for (uint64_t block : turn.blocks) {
    if (!cache.contains(block)) break;
    ++hits;
  }
  cache.insert(turn.blocks.begin(), turn.blocks.end());
  return hits * kBlockTokens;
}

}  // namespace

Bound infinite_alone(const Trace& trace, uint32_t engines) {
  std::vector<std::unordered_set<uint64_t>> caches(engines);
  Bound bound;
  for (auto& turn : trace.turns) {
    bound.tokens_total += turn.input_length;
    bound.tokens_cached += use(caches[engine_of(turn, engines)], turn);
  }
  return bound;
}

Bound infinite_shared(const Trace& trace) { return infinite_alone(trace, 1); }

}  // namespace millpond::replay
