#include "sim/runtime.h"

#include "sim/channel.h"

namespace millpond::sim {

SimRuntime::SimRuntime(World& world, Network& network, ProcessId process, rpc::Identity identity)
    : world_(world),
      network_(network),
      process_(process),
      identity_(std::move(identity)),
      clock_offset_(std::chrono::milliseconds(world.random().below(3'600'000))),
      random_(world.fork_random()) {}

SimRuntime::~SimRuntime() { network_.close_listeners(process_); }

Time SimRuntime::now() const { return world_.now() + clock_offset_; }

void SimRuntime::post(std::function<void()> task) { world_.at(world_.now(), process_, std::move(task)); }

std::shared_ptr<void> SimRuntime::after(Duration delay, std::function<void()> task) {
  auto kept = std::make_shared<std::function<void()>>(std::move(task));
  world_.after(std::max(delay, Duration(0)), process_, [weak = std::weak_ptr(kept)] {
    if (auto task = weak.lock()) (*task)();
  });
  return kept;
}

std::shared_ptr<rpc::Channel> SimRuntime::channel(rpc::PeerAddress peer) { return std::make_shared<SimChannel>(*this, std::move(peer)); }

Result<std::string> SimRuntime::listen(rpc::ListenOptions options, rpc::Service* service) {
  return network_.listen(*this, std::move(options), service);
}

}  // namespace millpond::sim
