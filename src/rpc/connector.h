// Opens a connection: resolves, tries each address in turn, ends by its deadline. Lives on the loop.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "rpc/address.h"
#include "rpc/loop.h"

namespace millpond::rpc {

void tune(int fd, const Endpoint& endpoint);         // no delay, keepalive, and an end for what is never acknowledged
Endpoint peer_of(int fd);
Endpoint local_of(int fd);

class Connector : public std::enable_shared_from_this<Connector> {
 public:
  using Done = std::function<void(Result<std::unique_ptr<Watch>>)>;
  // `done` runs once, later, unless stop() was called first. unavailable: says which address and why.
  static std::shared_ptr<Connector> start(std::shared_ptr<Loop> loop, const Address& address, Time deadline, Done done);
  void stop();

 private:
  Connector(std::shared_ptr<Loop> loop, const Address& address, Done done);
  void begin(Time deadline);
  void try_next();
  void ready();
  void finish(Result<std::unique_ptr<Watch>> result);

  std::shared_ptr<Loop> loop_;
  Address address_;
  Done done_;
  TimerQueue::Key timer_;
  std::vector<Endpoint> endpoints_;
  size_t next_ = 0;
  std::unique_ptr<Watch> watch_;
  std::string reason_ = "no address";
};

}  // namespace millpond::rpc
