// One store: the node that placement chose gets all blocks; another one gets what did not fit.
#pragma once
#include <memory>
#include <vector>

#include "base/mutex.h"
#include "client/core.h"

namespace millpond::client {

class StoreCall : public std::enable_shared_from_this<StoreCall> {
 public:
  using Done = std::function<void(std::vector<StoreOutcome>)>;
  StoreCall(std::shared_ptr<Core> core, std::vector<StoreItem> items, Time deadline, Done done);
  void start();

 private:
  void learn_view(std::vector<uint32_t> blocks);       // then places
  void place(std::vector<uint32_t> blocks);
  void send(NodeId node, std::vector<uint32_t> blocks);
  void answered(NodeId node, std::vector<uint32_t> blocks, Duration given, std::vector<transfer::WriteOutcome> outcomes);
  void finish();
  BlockId parent_of(uint32_t item) const;              // none() if it names none

  const std::shared_ptr<Core> core_;
  const Time started_, deadline_;
  const std::vector<StoreItem> items_;
  std::vector<StoreOutcome> outcomes_;
  std::vector<std::pair<uint32_t, uint32_t>> twins_;   // later item with the key of an earlier one
  Done done_;
  std::vector<NodeId> tried_;
  bool was_full_ = false;
  bool hashed_again_ = false;
  bool view_asked_ = false;
};

}  // namespace millpond::client
