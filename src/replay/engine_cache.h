// What the engine model needs of a pool: the seam where tests put a map in place of a cluster.
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "millpond/pool.h"

namespace millpond::replay {

class EngineCache {
 public:
  virtual ~EngineCache() = default;
  virtual Lookup lookup(std::span<const std::string> keys) = 0;
  // `found` names the same keys in the same order.
  virtual std::vector<LoadAnswer> load(const Lookup& found, std::span<const LoadBlock> blocks) = 0;
  virtual std::vector<Outcome> store(std::span<const StoreBlock> blocks) = 0;
};

}  // namespace millpond::replay
