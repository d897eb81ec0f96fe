// Where the next block goes: a weight for each node, proportional to the share of the cluster's stores it should get.
//
// A full node gives up its oldest block for a new one. That costs least where the next victim is oldest, so a node's
// worth is its capacity times the age of its next victim relative to the cluster's median (Feeley et al., Global memory
// management, 1995); free room is worth more than any victim. Left at that, an empty node that joins a full cluster would
// get every store, and with them every load of what is hot: so no node gets more than twice its fair share (by capacity),
// and a new empty one ramps up from a twentieth by its age, unless all are as new as it is.
//
// Lives on: one thread; no clock.
#pragma once
#include <map>
#include <vector>

#include "base/id.h"
#include "base/time.h"

namespace millpond::master {

struct NodeLoad {
  uint64_t capacity_bytes = 0;
  uint64_t used_bytes = 0;
  uint64_t free_bytes = 0;
  Duration victim_age = Duration::max();   // time since the next victim was last used; max(): no victim soon
  Time born;                               // now - the node's age
};

class Placement {
 public:
  static constexpr uint32_t kWhole = 1'000'000;            // the weights of all nodes together, nearly
  struct Options {
    Duration ramp = std::chrono::seconds(30);
  };
  explicit Placement(Options options) : options_(options) {}

  void report(NodeIndex node, const NodeLoad& load);
  void set_open(NodeIndex node, bool open);                // closed (suspect, dead): weight 0
  void forget(NodeIndex node);

  // Computes all weights anew. True if any moved by more than a twentieth of itself, or to or from 0.
  bool update(Time now);
  uint32_t weight(NodeIndex node) const;                   // as of the last update; 0: do not store there
  const NodeLoad* load(NodeIndex node) const;

 private:
  struct Node {
    NodeLoad load;
    bool open = true;
    uint32_t weight = 0;
  };
  Options options_;
  std::map<NodeIndex, Node> nodes_;
};

}  // namespace millpond::master
