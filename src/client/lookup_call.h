// One lookup (longest prefix) or locate (each key for itself): the table of the node in this process first, the master
// for the rest.
#pragma once
#include <memory>

#include "client/core.h"

namespace millpond::client {

class LookupCall : public std::enable_shared_from_this<LookupCall> {
 public:
  using Done = std::function<void(Result<Plan>)>;
  // `each`: false = stop at the first key that nobody has.
  LookupCall(std::shared_ptr<Core> core, std::vector<std::string> keys, bool each, Time deadline, Done done);
  void start();

 private:
  void look_here();
  void ask_next();
  void answered(size_t asked, Result<rpc::Reply> reply);
  void master_failed(Status status);
  void finish(Result<Plan> result);

  const std::shared_ptr<Core> core_;
  const bool each_;
  const Time started_, deadline_;
  Done done_;
  Plan plan_;
  std::vector<BlockId> ids_;
  std::vector<uint32_t> rest_;           // positions that the master is asked for, in order
  size_t at_ = 0;                        // in rest_
  bool hashed_again_ = false;
};

}  // namespace millpond::client
