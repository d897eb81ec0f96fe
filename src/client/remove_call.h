// One remove: the ids go to the master, which numbers the removals and has the nodes confirm them.
#pragma once
#include <memory>
#include <vector>

#include "client/core.h"

namespace millpond::client {

class RemoveCall : public std::enable_shared_from_this<RemoveCall> {
 public:
  using Done = std::function<void(Result<size_t>)>;
  RemoveCall(std::shared_ptr<Core> core, std::vector<std::string> keys, Time deadline, Done done);
  void start();

 private:
  void ask_next();
  void answered(size_t asked, Result<rpc::Reply> reply);
  void finish(Result<size_t> result);

  const std::shared_ptr<Core> core_;
  std::vector<std::string> keys_;
  const Time deadline_;
  Done done_;
  size_t at_ = 0;
  size_t removed_ = 0;
  bool hashed_again_ = false;
};

}  // namespace millpond::client
