// rpc::Runtime for one process of the simulated world: its clock is virtual (with an offset of its own, so that no
// code can compare times of two processes and get away with it), its timers are events, its channels cross the
// simulated network.
#pragma once
#include <memory>
#include <string>

#include "rpc/runtime.h"
#include "sim/network.h"
#include "sim/world.h"

namespace millpond::sim {

class SimRuntime : public rpc::Runtime {
 public:
  SimRuntime(World& world, Network& network, ProcessId process, rpc::Identity identity);
  ~SimRuntime() override;

  Time now() const override;
  uint64_t random() override { return random_.next(); }
  void post(std::function<void()> task) override;
  std::shared_ptr<void> after(Duration delay, std::function<void()> task) override;
  std::shared_ptr<rpc::Channel> channel(rpc::PeerAddress peer) override;
  Result<std::string> listen(rpc::ListenOptions options, rpc::Service* service) override;
  const rpc::Identity& identity() const override { return identity_; }

  ProcessId process() const { return process_; }
  World& world() { return world_; }
  Network& network() { return network_; }
  Time to_world(Time local) const { return local == Time::max() ? local : local - clock_offset_; }

 private:
  World& world_;
  Network& network_;
  const ProcessId process_;
  const rpc::Identity identity_;
  const Duration clock_offset_;
  Random random_;
};

}  // namespace millpond::sim
