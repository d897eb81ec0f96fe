// The master's state behind its one lock, and what the parts of the shell share. The pure classes decide; this carries
// out: it tells the directory who died, sends what nodes must hear, and answers.
//
// Lives on: the runtime's loop, under Gate's mutex (state_json and the checkers may come from elsewhere).
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/mutex.h"
#include "master/counters.h"
#include "master/directory.h"
#include "master/master.h"
#include "master/membership.h"
#include "master/namespaces.h"
#include "master/node_stream.h"
#include "master/peers.h"
#include "master/pending_removals.h"
#include "master/placement.h"
#include "master/removal_log.h"
#include "master/trace.h"
#include "master/view.h"
#include "rpc/runtime.h"

namespace millpond::master {

class Gate;

struct Core {
  static constexpr Duration kTick = std::chrono::milliseconds(100);
  static constexpr size_t kSweepSlots = 64 << 10;          // per tick: 0.5 ms at worst
  static constexpr size_t kTraceKept = 256 << 10;

  Core(Options options, rpc::Runtime& runtime, Metrics& metrics, std::weak_ptr<Gate> gate);

  Time now() const { return runtime.now(); }
  uint64_t term() const { return runtime.identity().master_term.value; }
  // `task(core)` for a callback of the runtime: it takes the lock, and does nothing once the master is gone.
  template <typename Task>
  auto later(Task task);

  void tick();
  void carry_out(const Changes& changes);
  // A node is at this removal: who waits for it may go on.
  void confirmed(NodeIndex index, uint64_t removal_last);
  void judge_warming();                                    // REQUIRES: called whenever a stream or a standing changed
  std::string name_of(NodeIndex index) const;              // for people
  std::string explain(const BlockId& id, double& seconds_ago, std::string& node) const;
  std::string state_json() const;

  Options options;
  rpc::Runtime& runtime;
  std::weak_ptr<Gate> gate;
  Counters counters;
  Time started;
  std::string address;
  bool warming = true;                                     // a miss may be premature; kept, because every lookup says it

  Directory directory;
  Membership membership;
  Placement placement;
  RemovalLog removals;
  Namespaces namespaces;
  Trace trace;
  View view;
  std::map<NodeIndex, NodeStream> streams;
  std::map<NodeIndex, uint64_t> blocks_announced;          // at the join: how far an inventory is
  std::map<NodeIndex, NodeFacts> facts;                    // until the index is released: for the trace and for logs
  std::map<ConnectionId, NodeIndex> connections;           // of nodes: whose loss is evidence
  Peers peers;
  PendingRemovals pending;
  std::shared_ptr<void> tick_timer;
  std::shared_ptr<void> touch_timer;
};

// The Service, and the lock. The contract lets a runtime outlive the master that listens on it, so a Gate stays behind
// when its master is gone and turns requests away.
class Gate : public rpc::Service, public std::enable_shared_from_this<Gate> {
 public:
  static std::shared_ptr<Gate> make();                     // kept until the process ends: some 100 bytes per master
  void open(std::unique_ptr<Core> core) EXCLUDES_LOCK(mutex_);
  void close() EXCLUDES_LOCK(mutex_);                      // drops the core

  template <typename Task>
  void with(Task task) EXCLUDES_LOCK(mutex_) {
    Lock lock(mutex_);
    if (core_) task(*core_);
  }

  void serve(rpc::Request request, std::shared_ptr<rpc::Responder> responder) override;
  void closed(ConnectionId connection) override;

 private:
  Mutex mutex_;
  std::unique_ptr<Core> core_ GUARDED_BY(mutex_);
};

template <typename Task>
auto Core::later(Task task) {
  return [gate = gate, task = std::move(task)](auto&&... arguments) mutable {
    if (auto held = gate.lock()) held->with([&](Core& core) { task(core, std::forward<decltype(arguments)>(arguments)...); });
  };
}

}  // namespace millpond::master
