// One seed: a cluster of a random shape, agents and faults at random, then everything healed and quiet, then every block
// that stands anywhere found and loaded again.
#pragma once
#include <cstdint>
#include <string>

#include "sim/workload.h"

namespace millpond::sim {

struct SeedResult {
  uint64_t seed = 0;
  std::string shape;                     // of the cluster, for people
  std::string violations;                // empty: all held
  uint64_t digest = 0;                   // of the final state and all events
  uint64_t events = 0;
  uint64_t checked = 0;                  // statements checked
  uint64_t faults = 0;
  WorkloadResult workload;
  uint64_t blocks_found_again = 0;
  double virtual_seconds = 0;
};

// `follow`: a key; what happens to it is told on stderr.
SeedResult run_seed(uint64_t seed, const std::string& follow = "");

}  // namespace millpond::sim
