#include "master/placement.h"

#include <algorithm>
#include <cmath>

namespace millpond::master {
namespace {
constexpr double kFreeWorth = 4;        // of a byte that is free, where one under a victim of median age is worth 1
constexpr double kAgeWorthMax = 4;      // ages swing; nobody is worth more than four times, or less than a quarter of, the median
constexpr double kFairSharesMax = 2;
constexpr double kRampFloor = 0.05;     // a new node is tried a little at once
constexpr double kMovedAtLeast = 0.05;  // smaller moves are not worth a new view for every client
}  // namespace

void Placement::report(NodeIndex node, const NodeLoad& load) { nodes_[node].load = load; }
void Placement::set_open(NodeIndex node, bool open) { nodes_[node].open = open; }
void Placement::forget(NodeIndex node) { nodes_.erase(node); }

uint32_t Placement::weight(NodeIndex node) const {
  auto found = nodes_.find(node);
  return found == nodes_.end() ? 0 : found->second.weight;
}

const NodeLoad* Placement::load(NodeIndex node) const {
  auto found = nodes_.find(node);
  return found == nodes_.end() ? nullptr : &found->second.load;
}

bool Placement::update(Time now) {
  struct Candidate {
    Node* node;
    double capacity, free, worth;
  };
  std::vector<Candidate> candidates;
  std::vector<double> ages;
  Duration eldest{0};
  double capacity_sum = 0, used_sum = 0;
  for (auto& [index, node] : nodes_) {
    const NodeLoad& load = node.load;
    if (!node.open || !load.capacity_bytes) continue;
    double capacity = double(load.capacity_bytes);
    candidates.push_back({&node, capacity, std::min(1.0, double(load.free_bytes) / capacity), 0});
    capacity_sum += capacity;
    used_sum += std::min(capacity, double(load.used_bytes));
    if (load.victim_age != Duration::max()) ages.push_back(std::max(1e-3, seconds(load.victim_age)));
    eldest = std::max(eldest, now - load.born);
  }
  double median = 1;
  if (!ages.empty()) {
    auto middle = ages.begin() + long(ages.size() / 2);
    std::nth_element(ages.begin(), middle, ages.end());
    median = *middle;
  }

  double ramp = std::max(1e-9, seconds(std::min(options_.ramp, eldest)));   // all are new: nobody ramps
  double fill_mean = capacity_sum > 0 ? used_sum / capacity_sum : 0;
  double worth_sum = 0;
  for (auto& c : candidates) {
    const NodeLoad& load = c.node->load;
    double age = load.victim_age == Duration::max() ? kAgeWorthMax : std::max(1e-3, seconds(load.victim_age)) / median;
    age = std::clamp(age, 1 / kAgeWorthMax, kAgeWorthMax);
    double grown = std::clamp(seconds(now - load.born) / ramp, kRampFloor, 1.0);
    // New but as full as the others (its arena outlived its process): there is nothing to ramp.
    double fill = fill_mean > 0 ? std::min(1.0, double(load.used_bytes) / c.capacity / fill_mean) : 1;
    c.worth = c.capacity * (c.free * kFreeWorth + (1 - c.free) * age) * std::max(grown, fill);
    worth_sum += c.worth;
  }

  // Nobody above twice its fair share: what is cut off goes to the others, which may lift one of them above its own.
  // A node that is capped stays capped, so this ends after at most as many rounds as there are nodes.
  std::vector<double> share(candidates.size(), 0);
  std::vector<bool> capped(candidates.size(), false);
  double rest = 1, rest_worth = worth_sum;
  for (bool again = true; again && rest_worth > 0;) {
    again = false;
    double rest_now = rest, worth_now = rest_worth;
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (capped[i]) continue;
      double cap = std::min(1.0, kFairSharesMax * candidates[i].capacity / capacity_sum);
      share[i] = rest_now * candidates[i].worth / worth_now;
      if (share[i] <= cap) continue;
      share[i] = cap;
      capped[i] = again = true;
      rest -= cap;
      rest_worth -= candidates[i].worth;
    }
    rest = std::max(0.0, rest);
  }

  bool moved = false;
  std::map<Node*, uint32_t> weights;
  for (size_t i = 0; i < candidates.size(); ++i)
    weights[candidates[i].node] = std::max<uint32_t>(1, uint32_t(std::lround(share[i] * kWhole)));
  for (auto& [index, node] : nodes_) {
    auto found = weights.find(&node);
    uint32_t weight = found == weights.end() ? 0 : found->second;
    bool step = (weight == 0) != (node.weight == 0) || std::abs(double(weight) - double(node.weight)) > kMovedAtLeast * double(node.weight);
    if (!step) continue;                   // the old value stays: small steps add up to one that is seen
    node.weight = weight;
    moved = true;
  }
  return moved;
}

}  // namespace millpond::master
