// What agents do to a pool: a system prompt shared by many, chains that grow turn by turn, each turn on another client:
// look the whole chain up, load what is there, store the rest. Now and then keys are removed, seldom all; now and then
// two writers disagree about the bytes of a key.
#pragma once
#include <string>
#include <vector>

#include "sim/cluster.h"

namespace millpond::sim {

struct WorkloadOptions {
  size_t agents = 8;
  size_t turns = 120;                    // in all
  size_t prompt_blocks_max = 6;          // of a shared system prompt
  size_t blocks_per_turn_max = 4;
  Duration think_max = std::chrono::milliseconds(700);   // between two turns of one agent
  double remove = 0.03;                  // chance per turn
  double remove_all = 0.002;
  double other_bytes = 0.02;             // chance per turn that its blocks are stored with other bytes than anybody else's
  double locate = 0.1;                   // chance that a turn asks for each key for itself
};

struct WorkloadResult {
  uint64_t turns = 0, operations = 0, blocks_stored = 0, blocks_loaded = 0, blocks_missed = 0, removals = 0, no_space = 0;
};

class Workload {
 public:
  Workload(Cluster& cluster, WorkloadOptions options, uint64_t seed);
  void start();                          // schedules the first turns; the world does the rest
  bool done() const { return turns_left_ == 0 && agents_active_ == 0; }
  const WorkloadResult& result() const { return result_; }

 private:
  struct Agent {
    std::vector<std::string> chain;      // keys so far
    uint64_t session = 0;
  };
  void turn(size_t agent);
  void look_up(size_t agent, size_t client);
  void move(size_t agent, size_t client, const client::Plan& plan);
  void store_rest(size_t agent, size_t client, size_t from);
  void finish_turn(size_t agent);
  void new_session(Agent& agent);
  void remove(size_t agent, size_t client);
  bool pick_client(size_t& client);
  void after(Duration delay, std::function<void()> task);

  Cluster& cluster_;
  WorkloadOptions options_;
  Random random_;
  std::vector<Agent> agents_;
  std::vector<std::string> retired_;     // of sessions that ended: nobody stores these again
  std::vector<size_t> prompts_;          // lengths of the shared system prompts
  size_t turns_left_;
  size_t agents_active_ = 0;
  uint64_t sessions_ = 0;
  WorkloadResult result_;
};

}  // namespace millpond::sim
