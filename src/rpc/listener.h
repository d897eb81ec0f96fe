// Takes connections on one address and serves their requests.
//
// Lives on: the loop, but open() and address() (the thread that listens).
#pragma once
#include <sys/types.h>

#include <memory>
#include <string>

#include "rpc/core.h"

namespace millpond::rpc {

class Listener : public Part, public std::enable_shared_from_this<Listener> {
 public:
  // Binds and listens; invalid says what stands in the way. start() then takes connections.
  static Result<std::shared_ptr<Listener>> open(std::shared_ptr<Core> core, ListenOptions options, Service* service);
  ~Listener() override;

  const std::string& address() const { return address_; }   // with the real port
  void start();
  void end() override;
  void check_stall(Time) override {}

  // Of the connections, which count themselves.
  size_t connections = 0;

 private:
  Listener(std::shared_ptr<Core> core, ListenOptions options, Service* service);
  Status open_tcp(const Address& address);
  Status open_unix(const Address& address);
  void wait();
  void accept_ready();
  void accepted(int fd);

  std::shared_ptr<Core> core_;
  ListenOptions options_;
  Service* service_;
  std::string address_;
  int fd_ = -1;                          // until start(), then the watch's
  std::string path_;                     // of our Unix socket file
  dev_t path_device_ = 0;
  ino_t path_inode_ = 0;
  std::unique_ptr<Watch> watch_;
};

}  // namespace millpond::rpc
