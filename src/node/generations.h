// Which generation each namespace is in, as far as this node has heard: what a Join carries.
// Lives on: any thread; one mutex. Limits: namespaces_max; beyond it the tier still knows, the Join does not say.
#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "tier/dram_tier.h"

namespace millpond::node {

class Generations {
 public:
  explicit Generations(tier::DramTier& tier, size_t namespaces_max = 64 << 10) : tier_(tier), max_(namespaces_max) {}

  // Blocks below `generation` are gone from now on. Does nothing when the node stands there or higher.
  void raise(NamespaceId space, uint32_t generation) {
    if (generation <= tier_.generation(space)) return;
    tier_.raise_generation(space, generation);
    Lock lock(mutex_);
    auto found = known_.find(space.value);
    if (found != known_.end()) {
      found->second = std::max(found->second, generation);
    } else if (known_.size() < max_) {
      known_.emplace(space.value, generation);
    }
  }
  std::vector<std::pair<uint32_t, uint32_t>> all() const {   // namespace, generation
    Lock lock(mutex_);
    return {known_.begin(), known_.end()};
  }

 private:
  tier::DramTier& tier_;
  const size_t max_;
  mutable Mutex mutex_;
  std::unordered_map<uint32_t, uint32_t> known_ GUARDED_BY(mutex_);
};

}  // namespace millpond::node
