// A whole cluster in one process: a master, nodes and clients as they ship, in a world of virtual time.
//
//   Cluster cluster(seed, {.nodes = 3});
//   cluster.client(0).store({"a", "b"});
//   cluster.crash_node(1);
//   EXPECT_EQ(cluster.client(1).lookup({"a", "b"}).matched, 2u);
//
// Whoever asks runs the world until the answer is there. The checkers watch all the time: finish() says what they saw.
// Lives on: one thread.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "client/client.h"
#include "master/master.h"
#include "node/node.h"
#include "sim/checkers.h"
#include "sim/network.h"
#include "sim/runtime.h"
#include "sim/world.h"

namespace millpond::sim {

class Cluster;

struct ClusterOptions {
  size_t nodes = 3;
  size_t clients = 2;
  size_t embedded = 0;                   // so many clients live in the process of a node: client i in that of node i
  Bytes arena = MiB(4);
  std::vector<Bytes> arenas;             // of each node; empty: `arena` for all
  size_t nodes_started = ~size_t(0);     // of `nodes`; the others wait for start_node()
  master::Options master;
  node::Options node;
  client::Options client;
  Network::Options network;
};

struct LoadedBlock {
  Code code = Code::miss;
  uint32_t version = 0;                  // of the content, when ok
  std::string owner;
};

// What was done for one operation; filled when it ends.
struct Operation {
  enum class Kind { lookup, load, store, remove, remove_all } kind;
  size_t client = 0;
  std::vector<std::string> keys;
  std::vector<uint32_t> versions;        // of a store
  Time start, deadline;                  // world time
  bool ended = false;
  bool aborted = false;                  // its client's process ended before
  Code code = Code::ok;                  // of the whole
  client::Plan plan;
  std::vector<LoadedBlock> loaded;
  std::vector<client::StoreOutcome> stored;
  size_t removed = 0;
  std::function<void()> on_abort;        // instead of `then`, when the client's process ends

  size_t count(Code code) const;         // outcomes of a store or load with this code
};
using OperationRef = std::shared_ptr<Operation>;

// A client of the cluster. The plain calls run the world until they are answered.
class ClusterClient {
 public:
  // Keys in prefix order: each block's parent is the key before it.
  Operation store(std::vector<std::string> keys, uint32_t version = 0, Duration deadline = Duration(0));
  client::Plan lookup(std::vector<std::string> keys, Duration deadline = Duration(0));
  client::Plan locate(std::vector<std::string> keys, Duration deadline = Duration(0));
  Operation ask(std::vector<std::string> keys, bool each, Duration deadline = Duration(0));   // lookup or locate, with its code
  Operation load(std::vector<std::string> keys, Duration deadline = Duration(0));
  Operation load(const client::Plan& plan, std::vector<std::string> keys, Duration deadline = Duration(0));
  Operation remove(std::vector<std::string> keys, Duration deadline = Duration(0));
  Operation remove_all(Duration deadline = Duration(0));

  using Then = std::function<void(const Operation&)>;
  OperationRef begin_store(std::vector<std::string> keys, std::vector<uint32_t> versions, std::string parent, Duration deadline, Then then = {});
  OperationRef begin_lookup(std::vector<std::string> keys, bool each, Duration deadline, Then then = {});
  OperationRef begin_load(std::vector<std::string> keys, const client::Plan* plan, Duration deadline, Then then = {});
  OperationRef begin_remove(std::vector<std::string> keys, Duration deadline, Then then = {});
  OperationRef begin_remove_all(Duration deadline, Then then = {});

  client::Client& real() { return *client_; }
  bool up() const { return client_ != nullptr; }
  HostId host() const { return host_; }
  uint64_t counter(const std::string& name) const;      // a metric of this client, 0 if unknown

 private:
  friend class Cluster;
  OperationRef begin(Operation::Kind kind, std::vector<std::string> keys, Duration deadline, Duration standard);
  void end(const OperationRef& operation, const Then& then);
  Operation wait(const OperationRef& operation);
  ProcessId local_process() const;

  Cluster* cluster_ = nullptr;
  size_t index_ = 0;
  HostId host_;
  ProcessId process_;
  std::unique_ptr<Metrics> metrics_;
  std::unique_ptr<SimRuntime> own_runtime_;             // null: embedded, the node's
  SimRuntime* runtime_ = nullptr;
  std::unique_ptr<client::Client> client_;
};

class Cluster {
 public:
  // Starts everything and runs until the nodes have joined and the clients are open.
  Cluster(uint64_t seed, ClusterOptions options);
  ~Cluster();

  World& world() { return world_; }
  Network& network() { return network_; }
  Checkers& checkers() { return checkers_; }
  const ClusterOptions& options() const { return options_; }

  size_t clients() const { return clients_.size(); }
  ClusterClient& client(size_t i) { return *clients_[i]; }

  size_t nodes() const { return nodes_.size(); }
  node::Node& node(size_t i) { return *nodes_[i].node; }           // REQUIRES: node_up(i)
  bool node_up(size_t i) const { return nodes_[i].node != nullptr; }
  HostId node_host(size_t i) const { return nodes_[i].host; }
  HostId master_host() const { return HostId(1); }
  std::string node_name(size_t i) const;
  double node_metric(size_t i, const std::string& name) const;    // with labels, as Metrics::values() names it; 0 if unknown
  double master_metric(const std::string& name) const;
  // Blocks of this node now, by key, of the latest generation that anybody has named: a node that was cut off holds
  // older ones on, which no client that knows better asks for.
  std::vector<std::string> keys_at(size_t i);
  bool holds(size_t i, const std::string& key);

  // ---- faults ----
  // `silent`: as if the host went too; peers learn nothing. Clients embedded in it go with it.
  void crash_node(size_t i, bool silent = false);
  void start_node(size_t i);             // a new life with an empty arena; embedded clients come back with it
  void stop_node(size_t i);              // says goodbye
  void pause_node(size_t i) { world_.pause(nodes_[i].process); }
  void resume_node(size_t i) { world_.resume(nodes_[i].process); }
  void crash_master(bool silent = false);
  void start_master();
  bool master_up() const { return master_ != nullptr; }
  master::Master& master() { return *master_; }
  void pause_master() { world_.pause(master_process_); }
  void resume_master() { world_.resume(master_process_); }
  void cut_off_node(size_t i) { network_.isolate(nodes_[i].host); }      // from everybody
  void cut_node_from_master(size_t i) { network_.cut_both(nodes_[i].host, master_host()); }
  void heal() { network_.heal(); }
  // Changes one byte of a block of this node in its memory. Answers its key; empty: nothing here.
  std::string flip_byte(size_t i);
  const std::set<std::string>& flipped() const { return flipped_; }

  void run_for(Duration duration) { world_.run_for(duration); }
  bool run_until(const std::function<bool()>& done, Duration limit) { return world_.run_until(done, world_.now() + limit); }
  // No faults any more, everything that is down started; runs until nobody waits for anything, and asks the checkers.
  void quiesce(Duration limit = std::chrono::minutes(3));
  // As quiesce(), without healing or starting anything.
  void compare_directory();
  bool joined(size_t i);                 // this master, and told it all it holds

  // What the checkers saw, one line each; empty: nothing wrong.
  std::string violations() const;
  // All blocks at all nodes and the world's trace, as one number.
  uint64_t digest();

 private:
  friend class ClusterClient;
  struct NodeSlot {
    NodeId id;
    uint64_t epoch = 0;
    HostId host;
    ProcessId process;
    Time started;
    std::unique_ptr<Metrics> metrics;
    std::unique_ptr<SimRuntime> runtime;
    std::unique_ptr<node::Node> node;
  };
  void start_client(size_t i);
  void abort_operations(ProcessId process);
  void end_node(NodeSlot& slot, bool silent);
  // Who bears this name, if it is the same process as at `since`; else kWorldProcess.
  ProcessId process_of_owner(const std::string& name, Time since) const;
  std::vector<Checkers::Held> held_by_nodes();
  std::vector<Checkers::Held> held_by_directory();

  ClusterOptions options_;
  World world_;
  Network network_;
  Checkers checkers_;
  ProcessId master_process_;
  Time master_started_;
  uint64_t master_term_ = 0;
  std::unique_ptr<Metrics> master_metrics_;
  std::unique_ptr<SimRuntime> master_runtime_;
  std::unique_ptr<master::Master> master_;
  std::vector<NodeSlot> nodes_;
  std::vector<std::unique_ptr<ClusterClient>> clients_;
  std::map<uint64_t, std::pair<ProcessId, OperationRef>> running_;   // operations that have not ended
  uint64_t operation_last_ = 0;
  std::set<std::string> flipped_;
  std::map<ProcessId, ProcessId> joined_to_;   // node → the master that answered its last join
  Time advertised_last_;                 // when the last advertisement left a node: an inventory may be followed by old events
};

}  // namespace millpond::sim
