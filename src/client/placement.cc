#include "client/placement.h"

#include <algorithm>

namespace millpond::client {
namespace {

template <typename Eligible>
std::optional<size_t> weighted(std::span<const Candidate> candidates, Random& random, Eligible eligible) {
  uint64_t sum = 0;
  for (auto& c : candidates) sum += eligible(c) ? c.weight : 0;
  if (sum == 0) return std::nullopt;
  uint64_t ticket = random.below(sum);
  for (size_t i = 0; i < candidates.size(); ++i) {
    if (!eligible(candidates[i])) continue;
    if (ticket < candidates[i].weight) return i;
    ticket -= candidates[i].weight;
  }
  return std::nullopt;                   // unreachable: ticket < sum
}

}  // namespace

std::optional<size_t> choose(std::span<const Candidate> candidates, Random& random) {
  uint64_t best = 0;
  for (auto& c : candidates)
    if (c.usable) best = std::max<uint64_t>(best, c.weight);
  // At half the worth a copy on this host still wins: it saves the network twice, when stored and when loaded.
  auto near_enough = [best](const Candidate& c) { return c.usable && 2 * uint64_t(c.weight) >= best; };
  if (auto chosen = weighted(candidates, random, [&](auto& c) { return c.in_process && near_enough(c); })) return chosen;
  if (auto chosen = weighted(candidates, random, [&](auto& c) { return c.same_host && near_enough(c); })) return chosen;
  return weighted(candidates, random, [](auto& c) { return c.usable; });
}

}  // namespace millpond::client
