// One machine's share of the pool: owns its tiers, serves peers, tells the master what it holds. The same class as a
// daemon (apps/) and embedded in an engine process (python/).
//
// Lives on: its runtime's loop; owner() may be used from any thread. Heartbeats go over a channel of their own.
// Design: docs/design/node.md.
#pragma once
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/status.h"
#include "rpc/runtime.h"
#include "tier/dram_tier.h"
#include "transfer/owner.h"

namespace millpond::node {

struct Options {
  std::string master = "127.0.0.1:7700";       // host:port
  std::string listen = "127.0.0.1:0";          // data port; 0 = any free port
  std::string advertise;                       // host:port that peers use; empty: where we listen
  std::string socket_directory;                // for the Unix socket; empty: $XDG_RUNTIME_DIR/millpond or /tmp/millpond-<uid>; "none": no shared memory
  std::string name;                            // for people; empty: host name + pid
  tier::DramTier::Options dram;
  Duration master_deadline = std::chrono::seconds(1);      // after one missed deadline the master counts as away
  size_t advertise_batch_max = 1024;           // items in one advertisement
  Duration join_retry = std::chrono::milliseconds(500);
  size_t removals_kept = 64 << 10;              // at least as many as the master keeps: it takes a shorter tail for all there were
  bool fault_in_background = true;             // a thread that faults the arena in; the simulator has none
};

struct NodeState {                             // for /state, stat and tests
  bool joined = false;
  bool inventory_complete = false;             // the master knows all that stands here
  bool master_away = false;                    // it missed a deadline: stores do not wait for it
  uint64_t removal_last = 0;
  uint64_t unadvertised = 0;
  tier::DramUsage dram;
};

class Node {
 public:
  // The runtime's identity carries node id, epoch and role `node`. Starts to listen, then joins in the background.
  // The Node ends before the runtime and the metrics. invalid: address in use, arena too large, socket path too long.
  static Result<std::unique_ptr<Node>> start(Options options, rpc::Runtime& runtime, Metrics& metrics);
  // Leaves the cluster if it can within 100 ms; destroyed on its runtime's loop it does not wait for the answer.
  ~Node();

  std::shared_ptr<transfer::Owner> owner();    // the way `local`: same process, no socket
  const std::string& address() const;          // where it listens
  NodeState state() const;
  std::string state_json() const;
  tier::DramTier& dram();                      // for the simulator's checkers

 private:
  Node();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millpond::node
