// The master: which block is on which nodes (directory), which nodes live (membership), where the next block goes
// (placement), and which removals there were. Soft state, rebuilt from the nodes. This is the shell around the pure
// classes; it owns no bytes.
// Lives on: its runtime's loop. Design: docs/design/master.md.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/block_id.h"
#include "base/metrics.h"
#include "base/status.h"
#include "rpc/runtime.h"

namespace millpond::master {

struct Options {
  std::string listen = "127.0.0.1:7700";
  Duration heartbeat_interval = std::chrono::seconds(1);
  Duration suspect_after = std::chrono::seconds(3);     // silence
  Duration dead_after = std::chrono::seconds(10);       // silence; reversible: entries are skipped, not erased
  Duration sweep_after = std::chrono::seconds(60);      // dead for so long: entries are swept in slices
  Duration removal_deadline = std::chrono::milliseconds(500);  // a remove waits so long for nodes to confirm
  size_t removals_kept = 64 << 10;
  Duration ramp = std::chrono::seconds(30);             // a new empty node reaches full placement weight after this
  Duration touch_interval = std::chrono::milliseconds(5);
};

class Master {
 public:
  // The runtime's identity carries role `master` and the term (start time).
  static Result<std::unique_ptr<Master>> start(Options options, rpc::Runtime& runtime, Metrics& metrics);
  ~Master();
  const std::string& address() const;
  std::string state_json() const;              // nodes, blocks, removals; what `millpond stat` shows

  // For the simulator's checker "after quiet, the directory equals the union of the nodes".
  void for_each_replica(const std::function<void(const BlockId&, NodeId, uint64_t root, uint64_t length)>& visit) const;

 private:
  Master();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millpond::master
