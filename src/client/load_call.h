// One load: blocks grouped by owner, several owners at once, the next replica when one fails.
#pragma once
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "client/core.h"

namespace millpond::client {

class LoadCall : public std::enable_shared_from_this<LoadCall> {
 public:
  using Done = std::function<void(std::vector<LoadOutcome>)>;
  LoadCall(std::shared_ptr<Core> core, std::vector<LoadItem> items, Time deadline, Done done);
  // Looks up first, which takes at most half of the time.
  void start();
  // Goes where `plan` says; what it does not name is a miss.
  void start(const Plan& plan);

 private:
  struct Block {
    KeyHash key;
    uint64_t room = 0;
    std::vector<NodeId> replicas;        // nearest first
    size_t next = 0;                     // in replicas
  };
  struct Group {                         // one message to one owner
    NodeId node{};
    std::shared_ptr<transfer::Owner> owner;        // until it is asked
    std::weak_ptr<transfer::Owner> transport;      // from then on
    std::vector<uint32_t> blocks;
    bool last_resort = false;            // these blocks have no further replica: the owner may take all the time
  };

  bool check(uint32_t i);                // false: settled as invalid
  void plan_block(uint32_t i, const Plan& plan, size_t at);
  void dispatch(std::vector<uint32_t> blocks);
  void send(Group group);
  void answered(const Group& group, Duration given, std::vector<transfer::ReadOutcome> outcomes);
  void finish();

  const std::shared_ptr<Core> core_;
  const Time started_, deadline_;
  const std::vector<LoadItem> items_;
  std::vector<Block> blocks_;            // of a block: by whoever is settling it; groups share none
  std::vector<LoadOutcome> outcomes_;
  Done done_;
  Mutex mutex_;
  size_t in_flight_ GUARDED_BY(mutex_) = 0;
};

}  // namespace millpond::client
