#include "master/master.h"

#include "base/log.h"
#include "master/core.h"

namespace millpond::master {

struct Master::State {
  std::shared_ptr<Gate> gate;
  std::string address;
};

Master::Master() = default;

Result<std::unique_ptr<Master>> Master::start(Options options, rpc::Runtime& runtime, Metrics& metrics) {
  uint64_t term = runtime.identity().master_term.value;
  if (term == 0 || term >> 43)   // removals are numbered (term << 20) + n
    return error(Code::invalid, "a master's term is its start in milliseconds since 1970, not {}", term);
  if (options.suspect_after <= options.heartbeat_interval || options.dead_after <= options.suspect_after)
    return error(Code::invalid, "heartbeat_interval {} < suspect_after {} < dead_after {} must hold (milliseconds): otherwise living nodes count as dead",
                 milliseconds(options.heartbeat_interval), milliseconds(options.suspect_after), milliseconds(options.dead_after));
  if (options.removals_kept == 0 || options.removals_kept > 256 << 10)   // a join brings all of them: 10 of 16 MiB
    return error(Code::invalid, "removals_kept {} is not within 1 … 262144", options.removals_kept);

  auto master = std::unique_ptr<Master>(new Master);
  master->state_ = std::make_unique<State>();
  State& state = *master->state_;
  state.gate = Gate::make();
  std::string listen = options.listen;
  state.gate->open(std::make_unique<Core>(std::move(options), runtime, metrics, state.gate));
  MP_TRY(state.address, runtime.listen({.address = listen}, state.gate.get()));
  state.gate->with([&](Core& core) {
    core.address = state.address;
    core.tick();
  });
  log::info("master of term {} listens on {}", term, state.address);
  return master;
}

Master::~Master() {
  if (state_ && state_->gate) state_->gate->close();
}

const std::string& Master::address() const { return state_->address; }

std::string Master::state_json() const {
  std::string json;
  state_->gate->with([&](Core& core) { json = core.state_json(); });
  return json;
}

void Master::for_each_replica(const std::function<void(const BlockId&, NodeId, uint64_t, uint64_t)>& visit) const {
  state_->gate->with([&](Core& core) {
    core.directory.for_each_replica([&](const BlockId& id, NodeIndex node, uint64_t root, uint32_t length) {
      auto known = core.facts.find(node);
      if (known != core.facts.end()) visit(id, known->second.id, root, length);
    });
  });
}

}  // namespace millpond::master
