// What a client knows: the master, the cluster as it last described it, the namespace's generation, a way to each node,
// and who is put aside because it failed. Calls (lookup_call.h, …) hold it; they end when it is closed.
// Lives on: any thread; one mutex, never held while a call is made.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/block_id.h"
#include "base/mutex.h"
#include "base/random.h"
#include "client/client.h"
#include "client/counters.h"
#include "client/placement.h"
#include "transfer/owner.h"
#include "wire/message.h"

namespace millpond::client {

struct Node {                            // as the master's last view has it
  NodeId id{};
  NodeEpoch epoch{};
  std::string name;
  std::string address;
  std::string local_socket;
  uint64_t host_id = 0;
  bool alive = false;                    // not suspect, not dead
  uint32_t weight = 0;
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  Core(Options options, rpc::Runtime& runtime, Metrics& metrics, std::shared_ptr<transfer::Owner> local, NodeId local_id);

  // No call is made after this; calls in flight end with unavailable.
  void close();

  // Asks the master; `done` gets a reply of kind `expected`, parsed by nobody yet, on the loop. Keeps account of whether
  // the master answers.
  void ask_master(wire::Kind kind, ByteVector body, wire::Kind expected, Time deadline, std::function<void(Result<rpc::Reply>)> done);
  // True while the master is put aside: lookups do without it. Explicit questions (remove, stat) still ask.
  bool master_away();
  // Learns generation and view.
  void open(Time deadline, std::function<void(Status)> done);

  Namespace space();                     // with the latest generation known
  void learn_generation(uint32_t generation);   // generations only grow
  void learn(const wire::ClusterView* view);    // null: nothing new
  uint64_t view_version();               // 0: none

  Located located(uint16_t node_index, uint8_t tier);   // node_id 0: not in the view
  Located located_here();                // the node in this process
  // 0 for the nearest: in this process, on this host, alive elsewhere, suspect.
  int distance(NodeId node);
  // A way to the node; null: unknown, or put aside, or closed.
  std::shared_ptr<transfer::Owner> owner(NodeId node);
  std::string name_of(NodeId node);
  // Where the next blocks go; NodeId() when nowhere.
  NodeId place(const std::vector<NodeId>& tried);

  // A node answered `code` (unavailable, timed_out or corrupt) for these blocks, having had `given` to answer.
  void failed(NodeId node, Code code, Duration given, std::vector<BlockId> ids);

  const Options options;
  rpc::Runtime& runtime;
  Metrics& metrics;
  Counters counters;
  const std::shared_ptr<transfer::Owner> local;
  const NodeId local_id;

 private:
  struct Known {
    Node node;
    std::shared_ptr<transfer::Owner> owner;      // made when first used
    Time aside_until{Duration::min()};
  };
  void ask_master(wire::Kind kind, ByteVector body, wire::Kind expected, Time deadline, bool last,
                  std::function<void(Result<rpc::Reply>)> done);
  void master_result(Code code, Duration given);
  bool proves_failure(Code code, Duration given) const;

  Mutex mutex_;
  bool closed_ GUARDED_BY(mutex_) = false;
  std::shared_ptr<rpc::Channel> master_ GUARDED_BY(mutex_);
  Time master_away_until_ GUARDED_BY(mutex_){Duration::min()};
  uint32_t generation_ GUARDED_BY(mutex_) = 0;
  uint64_t view_version_ GUARDED_BY(mutex_) = 0;
  std::map<uint16_t, NodeId> by_index_ GUARDED_BY(mutex_);
  std::map<NodeId, Known> nodes_ GUARDED_BY(mutex_);
  Random random_ GUARDED_BY(mutex_);
};

}  // namespace millpond::client
