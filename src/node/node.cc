#include "node/node.h"

#include <unistd.h>

#include <atomic>
#include <thread>

#include "base/log.h"
#include "node/local_owner.h"
#include "node/master_link.h"
#include "node/service.h"
#include "node/shared.h"
#include "node/socket_path.h"
#include "rpc/address.h"

namespace millpond::node {
namespace {

std::string host_name() {
  char name[256] = "localhost";
  gethostname(name, sizeof name - 1);
  return name;
}

// What peers can use: a node that listens on every interface has no address of its own.
std::string reachable(const std::string& listening) {
  size_t colon = listening.rfind(':');
  std::string host = listening.substr(0, colon);
  if (host != "0.0.0.0" && host != "[::]" && host != "::") return listening;
  std::string guess = host_name() + listening.substr(colon);
  log::warn("node: listens on every interface ({}) and tells its peers {}; set `advertise` if they cannot reach that", listening, guess);
  return guess;
}

// A runtime keeps the service it listens for as long as it lives, which is longer than a node does. Doorways are a
// pointer each and stay.
rpc::Service* keep_for_ever(std::shared_ptr<rpc::Service> doorway) {
  static Mutex mutex;
  static auto* kept = new std::vector<std::shared_ptr<rpc::Service>>;
  Lock lock(mutex);
  kept->push_back(std::move(doorway));
  return kept->back().get();
}

// Blocks of older namespace generations are freed in slices, so that a wipe stops nobody.
constexpr Duration kSweepPause = std::chrono::seconds(1);
constexpr Duration kSweepSlice = std::chrono::milliseconds(1);
void sweep_after(Shared& shared, Duration delay) {
  shared.sweep_timer = shared.runtime.after(delay, [weak = shared.weak_from_this()] {
    auto shared = weak.lock();
    if (!shared || shared->closed) return;
    bool more = shared->tier->sweep(1024);
    sweep_after(*shared, more ? kSweepSlice : kSweepPause);
  });
}

struct Latch {
  Mutex mutex;
  Condition condition;
  bool open GUARDED_BY(mutex) = false;
  void release() {
    Lock lock(mutex);
    open = true;
    condition.notify_all();
  }
  void wait(Duration limit) {
    auto until = std::chrono::steady_clock::now() + limit;
    Lock lock(mutex);
    while (!open) {
      auto left = until - std::chrono::steady_clock::now();
      if (left <= Duration(0)) return;
      condition.wait_for(mutex, left);
    }
  }
};

constexpr Duration kLeaveDeadline = std::chrono::milliseconds(100);

}  // namespace

struct Node::State {
  std::shared_ptr<Shared> shared;
  std::shared_ptr<transfer::Owner> owner;
  std::atomic<bool> stop_faulting{false};
  std::thread faulting;
};

Node::Node() : state_(std::make_unique<State>()) {}

Result<std::unique_ptr<Node>> Node::start(Options options, rpc::Runtime& runtime, Metrics& metrics) {
  if (!options.advertise.empty()) {   // nobody could reach what is stored here, and everybody would try
    auto address = rpc::parse_address(options.advertise);
    if (!address || address->local() || address->port == 0)
      return error(Code::invalid, "advertise \"{}\" is no address that peers can call: give host:port, as 10.0.0.2:7800", options.advertise);
  }
  MP_TRY(auto tier, tier::DramTier::open(options.dram, tier::make_leaf_lru(), metrics));
  auto shared = std::make_shared<Shared>(options, runtime, metrics, std::move(tier));
  shared->name = options.name.empty() ? fmt::format("{}-{}", host_name(), getpid()) : options.name;
  shared->link = std::make_unique<MasterLink>(*shared);
  shared->service = std::make_unique<DataService>(*shared);

  rpc::Service* doorway = keep_for_ever(make_doorway(shared));
  MP_TRY(shared->address, runtime.listen({.address = options.listen}, doorway));
  shared->advertised = options.advertise.empty() ? reachable(shared->address) : options.advertise;
  if (options.socket_directory != "none") {
    auto path = make_socket_path(options.socket_directory, runtime.identity().node_id, runtime.identity().node_epoch);
    if (!path && !options.socket_directory.empty()) return error(path.error());   // asked for, and cannot be had
    auto listening = path ? runtime.listen({.address = "unix:" + *path, .shared_fds = {shared->tier->arena().fd(), shared->tier->arena().read_only_fd()}}, doorway)
                          : Result<std::string>(error(path.error()));
    if (listening) {
      shared->socket_path = *path;
    } else {
      log::warn("node {}: no shared memory, processes of this host will use TCP: {}", shared->name, listening.error().text());
    }
  }

  std::weak_ptr<Shared> weak = shared;
  metrics.gauge_function("millpond_node_unadvertised", "Changes the master has not answered yet.", [weak] {
    auto shared = weak.lock();
    return shared ? double(shared->state().unadvertised) : 0.0;
  });
  metrics.gauge_function("millpond_node_joined", "1 while this node is joined to a master.", [weak] {
    auto shared = weak.lock();
    return shared && shared->joined ? 1.0 : 0.0;
  });
  metrics.gauge_function("millpond_node_master_away", "1 while stores do not wait for the master.", [weak] {
    auto shared = weak.lock();
    return shared && shared->master_away ? 1.0 : 0.0;
  });

  // One task pumps for any number of events.
  shared->tier->on_events([weak, &runtime] {
    runtime.post([weak] {
      auto shared = weak.lock();
      if (shared && !shared->closed) shared->link->pump();
    });
  });
  runtime.post([weak] {
    auto shared = weak.lock();
    if (!shared || shared->closed) return;
    shared->loop_thread = std::this_thread::get_id();
    sweep_after(*shared, kSweepPause);
    shared->link->pump();
  });

  std::unique_ptr<Node> node(new Node);
  State& state = *node->state_;
  state.shared = shared;
  state.owner = make_local_owner(shared);
  if (options.fault_in_background) {
    state.faulting = std::thread([&state] {
      while (!state.stop_faulting && state.shared->tier->fault_next()) {
      }
    });
  }
  log::info("node {}: {} of memory, listens on {}{}", shared->name, text(options.dram.capacity), shared->address,
            shared->socket_path.empty() ? "" : " and " + shared->socket_path);
  return node;
}

Node::~Node() {
  State& state = *state_;
  if (!state.shared) return;
  state.stop_faulting = true;
  if (state.faulting.joinable()) state.faulting.join();
  std::shared_ptr<Shared> shared = std::move(state.shared);
  auto left = std::make_shared<Latch>();
  auto close = [left](Shared& shared) {
    shared.closed = true;
    shared.sweep_timer.reset();
    shared.link->close(shared.runtime.now() + kLeaveDeadline, [left] { left->release(); });
  };
  if (shared->loop_thread.load() == std::this_thread::get_id()) {
    close(*shared);
  } else {
    // Through the loop: when the latch opens no callback of ours runs there any more, and the goodbye is answered.
    auto entered = std::make_shared<Latch>();
    shared->runtime.post([weak = std::weak_ptr(shared), close, entered] {
      if (auto shared = weak.lock()) close(*shared);
      entered->release();
    });
    entered->wait(std::chrono::seconds(1));      // a loop that has ended does not run it
    left->wait(kLeaveDeadline);
    shared->closed = true;
  }
  if (!shared->socket_path.empty()) unlink(shared->socket_path.c_str());
}

std::shared_ptr<transfer::Owner> Node::owner() { return state_->owner; }
const std::string& Node::address() const { return state_->shared->address; }
NodeState Node::state() const { return state_->shared->state(); }
std::string Node::state_json() const { return state_->shared->state_json(); }
tier::DramTier& Node::dram() { return *state_->shared->tier; }

}  // namespace millpond::node
