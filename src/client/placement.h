// Where the next blocks go. One choice per store call, so that its blocks stay together.
#pragma once
#include <cstdint>
#include <optional>
#include <span>

#include "base/id.h"
#include "base/random.h"

namespace millpond::client {

struct Candidate {
  NodeId node{};
  uint32_t weight = 0;                   // as the master gives it; 0 = do not store there
  bool in_process = false;               // a node in this process
  bool same_host = false;
  bool usable = true;                    // alive, its breaker closed, not tried before
};

// A node in this process when it is worth at least half of the best, else one on this host that is, else any; each with
// a probability proportional to its weight. nullopt: nobody is usable with a weight above 0.
std::optional<size_t> choose(std::span<const Candidate> candidates, Random& random);

}  // namespace millpond::client
