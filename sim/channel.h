// rpc::Channel over the simulated network: connects when first used, says Hello, reconnects after a loss, multiplexes.
#pragma once
#include <memory>

#include "rpc/runtime.h"

namespace millpond::sim {

class SimRuntime;

class SimChannel : public rpc::Channel {
 public:
  SimChannel(SimRuntime& runtime, rpc::PeerAddress peer);
  ~SimChannel() override;
  void call(rpc::Message request, Time deadline, rpc::LandReply land, rpc::Done done) override;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

inline constexpr size_t kCallsInFlightMax = 4096;   // of one channel; beyond it: overloaded

}  // namespace millpond::sim
