#include "sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/check.h"
#include "base/checksum.h"
#include "base/log.h"
#include "sim/content.h"
#include "wire/message.h"

namespace millpond::sim {
namespace {
constexpr const char* kMasterAddress = "10.0.0.1:7700";

void log_with_virtual_time(const World& world) {
  if (!std::getenv("MILLPOND_LOG")) return log::set_level(log::Level::off);
  log::set_sink([&world](log::Level, std::string_view line) { fmt::print(stderr, "{:12.6f} {}\n", seconds(world.now().since_start) - 3600, line); });
}
}  // namespace

// ---- life and death ----

Cluster::Cluster(uint64_t seed, ClusterOptions options)
    : options_(std::move(options)),
      world_(seed),
      network_(world_, options_.network),
      checkers_(world_, network_, options_.client.tenant, options_.client.namespace_name) {
  log_with_virtual_time(world_);
  world_.on_step([this](ProcessId process) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].process != process || !nodes_[i].node) continue;
      auto usage = nodes_[i].node->dram().usage();
      auto sum = usage.live.count + usage.condemned.count + usage.reserved.count + usage.free.count + usage.overhead.count;
      if (sum != usage.capacity.count) checkers_.violated(fmt::format("ARENA: {} holds {} bytes of {}", node_name(i), sum, usage.capacity.count));
    }
  });
  network_.watch([this](const Passing& message) {
    if (message.arrived && message.kind == wire::Kind::join_reply) joined_to_[message.target] = message.source;
    if (message.kind == wire::Kind::advertise) advertised_last_ = world_.now();
  });
  start_master();
  for (size_t i = 0; i < options_.nodes; ++i) {
    auto& slot = nodes_.emplace_back();
    slot.id = NodeId(world_.random().next() | 1);
    slot.host = HostId(uint32_t(10 + i));
  }
  for (size_t i = 0; i < options_.clients; ++i) {
    auto& client = *clients_.emplace_back(std::make_unique<ClusterClient>());
    client.cluster_ = this;
    client.index_ = i;
    client.host_ = i < options_.embedded ? nodes_[i].host : HostId(uint32_t(1000 + i));
  }
  size_t started = std::min(options_.nodes_started, options_.nodes);
  for (size_t i = 0; i < started; ++i) start_node(i);
  run_until([&] { for (size_t i = 0; i < started; ++i) if (!joined(i)) return false; return true; }, std::chrono::seconds(20));
  for (size_t i = options_.embedded; i < options_.clients; ++i) start_client(i);
  run_for(std::chrono::seconds(1));
}

Cluster::~Cluster() {
  for (auto& [id, running] : running_) running.second->aborted = true;
  for (size_t i = 0; i < nodes_.size(); ++i) crash_node(i);
  for (auto& client : clients_) {
    if (!client->client_) continue;
    network_.process_ended(client->process_, false);
    world_.end_process(client->process_);
    client->client_.reset();
    client->own_runtime_.reset();
  }
  crash_master();
  log::set_sink(nullptr);
}

std::string Cluster::node_name(size_t i) const { return fmt::format("node-{}", i); }

void Cluster::start_master() {
  if (master_) return;
  network_.reconnect(master_host());
  master_process_ = world_.start_process(master_host());
  master_started_ = world_.now();
  // A term is a start time in milliseconds; two in one millisecond are still two.
  master_term_ = std::max(master_term_ + 1, uint64_t(milliseconds(world_.now().since_start)));
  master_metrics_ = std::make_unique<Metrics>();
  master_runtime_ = std::make_unique<SimRuntime>(world_, network_, master_process_,
                                                 rpc::Identity{.role = uint8_t(wire::Role::master), .master_term = MasterTerm(master_term_)});
  auto options = options_.master;
  options.listen = kMasterAddress;
  auto made = master::Master::start(options, *master_runtime_, *master_metrics_);
  MP_CHECK(made.has_value(), "the master does not start: {}", made.error().text());
  master_ = std::move(*made);
}

void Cluster::crash_master(bool silent) {
  if (!master_) return;
  if (silent) network_.isolate(master_host());
  network_.process_ended(master_process_, silent);
  world_.end_process(master_process_);
  master_.reset();
  master_runtime_.reset();
  master_metrics_.reset();
}

void Cluster::start_node(size_t i) {
  auto& slot = nodes_[i];
  if (slot.node) return;
  network_.reconnect(slot.host);
  slot.process = world_.start_process(slot.host);
  slot.started = world_.now();
  ++slot.epoch;
  slot.metrics = std::make_unique<Metrics>();
  slot.runtime = std::make_unique<SimRuntime>(world_, network_, slot.process,
                                              rpc::Identity{.role = uint8_t(wire::Role::node), .node_id = slot.id, .node_epoch = NodeEpoch(slot.epoch)});
  auto options = options_.node;
  options.master = kMasterAddress;
  options.listen = fmt::format("{}:7000", host_address(slot.host));
  options.socket_directory = "none";
  options.name = node_name(i);
  options.fault_in_background = false;
  options.dram.capacity = i < options_.arenas.size() ? options_.arenas[i] : options_.arena;
  options.dram.hugepages = false;
  options.dram.boot_counter = uint32_t(slot.epoch);
  auto made = node::Node::start(options, *slot.runtime, *slot.metrics);
  MP_CHECK(made.has_value(), "{} does not start: {}", options.name, made.error().text());
  slot.node = std::move(*made);
  if (i < options_.embedded) start_client(i);
}

void Cluster::end_node(NodeSlot& slot, bool silent) {
  abort_operations(slot.process);
  network_.process_ended(slot.process, silent);
  world_.end_process(slot.process);
  for (auto& client : clients_)
    if (client->client_ && client->process_ == slot.process) client->client_.reset();
  slot.node.reset();
  slot.runtime.reset();
  slot.metrics.reset();
}

void Cluster::crash_node(size_t i, bool silent) {
  auto& slot = nodes_[i];
  if (!slot.node) return;
  if (silent) network_.isolate(slot.host);
  end_node(slot, silent);
}

void Cluster::stop_node(size_t i) {
  auto& slot = nodes_[i];
  if (!slot.node) return;
  abort_operations(slot.process);
  for (auto& client : clients_)
    if (client->client_ && client->process_ == slot.process) client->client_.reset();
  slot.node.reset();                     // says goodbye; on its own loop it does not wait for the answer
  run_for(std::chrono::milliseconds(150));
  end_node(slot, false);
}

void Cluster::start_client(size_t i) {
  auto& client = *clients_[i];
  client.metrics_ = std::make_unique<Metrics>();
  std::shared_ptr<transfer::Owner> local;
  NodeId local_id;
  if (i < options_.embedded) {
    auto& slot = nodes_[i];
    client.process_ = slot.process;
    client.runtime_ = slot.runtime.get();
    local = slot.node->owner();
    local_id = slot.id;
  } else {
    client.process_ = world_.start_process(client.host_);
    client.own_runtime_ = std::make_unique<SimRuntime>(world_, network_, client.process_, rpc::Identity{.role = uint8_t(wire::Role::client)});
    client.runtime_ = client.own_runtime_.get();
  }
  auto options = options_.client;
  options.master = kMasterAddress;
  options.transports.shm = false;        // no Unix sockets here
  client.client_ = std::make_unique<client::Client>(options, *client.runtime_, *client.metrics_, local, local_id);
  client.client_->open(client.runtime_->now() + std::chrono::seconds(5), [](Status) {});
}

void Cluster::abort_operations(ProcessId process) {
  std::vector<OperationRef> aborted;
  std::erase_if(running_, [&](auto& entry) {
    if (entry.second.first != process) return false;
    aborted.push_back(entry.second.second);
    return true;
  });
  for (auto& operation : aborted) {
    operation->aborted = true;
    if (operation->on_abort) operation->on_abort();
  }
}

ProcessId Cluster::process_of_owner(const std::string& name, Time since) const {
  for (size_t i = 0; i < nodes_.size(); ++i)
    if (nodes_[i].node && nodes_[i].started <= since && node_name(i) == name) return nodes_[i].process;
  return kWorldProcess;
}

// ---- looking in ----

namespace {
double value_of(const Metrics* metrics, const std::string& name) {
  if (!metrics) return 0;
  auto values = metrics->values();
  auto found = values.find(name);
  return found == values.end() ? 0 : found->second;
}

std::vector<tier::BlockInfo> inventory_of(node::Node& node) {
  std::vector<tier::BlockInfo> all;
  uint64_t cursor = 0;
  do {
    auto chunk = node.dram().inventory(cursor, 1024);
    all.insert(all.end(), chunk.begin(), chunk.end());
  } while (cursor != 0);
  return all;
}
}  // namespace

double Cluster::node_metric(size_t i, const std::string& name) const { return value_of(nodes_[i].metrics.get(), name); }
double Cluster::master_metric(const std::string& name) const { return value_of(master_metrics_.get(), name); }

std::vector<std::string> Cluster::keys_at(size_t i) {
  std::vector<std::string> keys;
  for (auto& block : inventory_of(node(i)))
    if (block.namespace_generation < checkers_.generation()) continue;
    else if (auto key = node(i).dram().key_of(block.id)) keys.push_back(*key);
  std::sort(keys.begin(), keys.end());
  return keys;
}

bool Cluster::holds(size_t i, const std::string& key) {
  if (!node_up(i)) return false;
  for (auto& id : checkers_.ids_of(key))
    if (node(i).dram().contains(id)) return true;
  return false;
}

std::string Cluster::flip_byte(size_t i) {
  if (!node_up(i)) return "";
  auto blocks = inventory_of(node(i));
  if (blocks.empty()) return "";
  std::sort(blocks.begin(), blocks.end(), [](auto& a, auto& b) { return a.id < b.id; });
  auto& block = blocks[world_.random().below(blocks.size())];
  auto key = node(i).dram().key_of(block.id);
  auto view = node(i).dram().find(block.id, nodes_[i].runtime->now(), /*peek=*/true);
  if (!view || view->pieces.empty() || !key) return "";
  auto piece = view->pieces[world_.random().below(view->pieces.size())];
  auto& byte = const_cast<std::byte&>(piece[world_.random().below(piece.size())]);
  byte ^= std::byte(1 + world_.random().below(255));
  flipped_.insert(*key);
  return *key;
}

bool Cluster::joined(size_t i) {
  if (!node_up(i)) return false;
  auto state = node(i).state();
  if (!master_ || joined_to_[nodes_[i].process] != master_process_) return false;
  return state.joined && state.inventory_complete && state.unadvertised == 0;
}

std::vector<Checkers::Held> Cluster::held_by_nodes() {
  std::vector<Checkers::Held> held;
  for (auto& slot : nodes_)
    if (slot.node)
      for (auto& block : inventory_of(*slot.node)) held.push_back({block.id, slot.id.value, block.root, block.length});
  return held;
}

std::vector<Checkers::Held> Cluster::held_by_directory() {
  std::vector<Checkers::Held> held;
  if (master_)
    master_->for_each_replica([&](const BlockId& id, NodeId node, uint64_t root, uint64_t length) { held.push_back({id, node.value, root, length}); });
  return held;
}

void Cluster::compare_directory() { checkers_.compare(held_by_directory(), held_by_nodes()); }

void Cluster::quiesce(Duration limit) {
  auto& faults = network_.options();
  faults.break_connection = faults.flip_message = faults.flip_payload = faults.duplicate = 0;
  network_.heal();
  if (master_) resume_master();
  start_master();
  for (size_t i = 0; i < nodes_.size(); ++i) {
    if (node_up(i)) resume_node(i);
    start_node(i);
  }
  auto until = world_.now() + limit;
  auto settled = [&] {
    if (!running_.empty() || world_.now() - advertised_last_ < std::chrono::seconds(1)) return false;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!joined(i)) return false;
    return true;
  };
  world_.run_until(settled, until);
  // Longer than connections stall and nodes are suspect, so that nothing of before is under way.
  run_for(std::chrono::seconds(12));
  if (!world_.run_until(settled, until)) {
    std::string why;
    for (size_t i = 0; i < nodes_.size(); ++i)
      if (!joined(i)) why += fmt::format(" {}: {}", node_name(i), node(i).state_json());
    checkers_.violated(fmt::format("QUIET: {} calls still running, nodes not back:{}", running_.size(), why));
    return;
  }
  compare_directory();
  std::vector<ProcessId> nodes, all{master_process_};
  for (auto& slot : nodes_) nodes.push_back(slot.process), all.push_back(slot.process);
  checkers_.after_quiet(nodes, all, [&](ProcessId process, const BlockId& id) {
    for (auto& slot : nodes_)
      if (slot.process == process) return slot.node->dram().contains(id);
    return false;
  });
}

std::string Cluster::violations() const {
  std::string text;
  for (auto& line : checkers_.violations()) text += line + "\n";
  return text;
}

uint64_t Cluster::digest() {
  auto held = held_by_nodes();
  std::sort(held.begin(), held.end());
  for (auto& block : held) world_.note(block.id.low ^ block.node_id ^ block.root);
  return world_.digest();
}

// ---- clients ----

size_t Operation::count(Code code) const {
  if (kind == Kind::store) return size_t(std::count_if(stored.begin(), stored.end(), [&](auto& outcome) { return outcome.code == code; }));
  return size_t(std::count_if(loaded.begin(), loaded.end(), [&](auto& outcome) { return outcome.code == code; }));
}

uint64_t ClusterClient::counter(const std::string& name) const { return uint64_t(value_of(metrics_.get(), name)); }

ProcessId ClusterClient::local_process() const { return own_runtime_ ? kWorldProcess : process_; }

OperationRef ClusterClient::begin(Operation::Kind kind, std::vector<std::string> keys, Duration deadline, Duration standard) {
  MP_CHECK(up(), "client {} is down", index_);
  auto& world = cluster_->world_;
  auto operation = std::make_shared<Operation>();
  operation->kind = kind;
  operation->client = index_;
  operation->keys = std::move(keys);
  operation->start = world.now();
  operation->deadline = world.now() + (deadline > Duration(0) ? deadline : standard);
  auto id = ++cluster_->operation_last_;
  cluster_->running_[id] = {process_, operation};
  // The check that it ends in time. A stopped process has until it goes on.
  auto watch = std::make_shared<std::function<void()>>();
  *watch = [cluster = cluster_, weak_watch = std::weak_ptr(watch), watch_kept = std::weak_ptr(operation), process = process_, id] {
    auto operation = watch_kept.lock();
    if (!operation || operation->ended || operation->aborted) return;
    auto self = weak_watch.lock();
    if (cluster->world_.paused(process)) return cluster->world_.after(std::chrono::milliseconds(50), kWorldProcess, [self] { (*self)(); });
    static constexpr const char* kNames[] = {"lookup", "load", "store", "remove", "remove_all"};
    cluster->checkers_.violated(fmt::format("LATE: a {} of {} keys by client {} has not ended by its deadline", kNames[int(operation->kind)], operation->keys.size(), operation->client));
    cluster->running_.erase(id);
  };
  world.at(operation->deadline + Duration(1000), kWorldProcess, [watch] { (*watch)(); });
  return operation;
}

void ClusterClient::end(const OperationRef& operation, const Then& then) {
  if (operation->ended) cluster_->checkers_.violated("a call ended twice");
  operation->ended = true;
  std::erase_if(cluster_->running_, [&](auto& entry) { return entry.second.second == operation; });
  if (then) then(*operation);
}

Operation ClusterClient::wait(const OperationRef& operation) {
  auto& world = cluster_->world_;
  world.run_until([&] { return operation->ended || operation->aborted; }, operation->deadline + std::chrono::seconds(60));
  return *operation;
}

OperationRef ClusterClient::begin_store(std::vector<std::string> keys, std::vector<uint32_t> versions, std::string parent, Duration deadline, Then then) {
  auto& random = cluster_->world_.random();
  auto memory = std::make_shared<std::vector<ByteVector>>();
  std::vector<client::StoreItem> items;
  std::vector<Checkers::StoreRef> refs;
  uint64_t bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    auto& block = memory->emplace_back(content_length(keys[i], versions[i]));
    fill_content(keys[i], versions[i], block);
    bytes += block.size();
    auto cut = random.below(block.size() + 1);
    client::StoreItem item{.key = keys[i], .pieces = {ByteSpan(block).first(cut), ByteSpan(block).subspan(cut)}, .parent = parent};
    parent = keys[i];
    items.push_back(std::move(item));
    refs.push_back(cluster_->checkers_.store_starts(keys[i], versions[i]));
  }
  auto operation = begin(Operation::Kind::store, std::move(keys), deadline, client_->move_deadline(bytes));
  operation->versions = std::move(versions);
  client_->store(std::move(items), runtime_->now() + (operation->deadline - operation->start),
                 [this, operation, memory, refs = std::move(refs), then = std::move(then)](std::vector<client::StoreOutcome> outcomes) {
                   if (operation->aborted) return;
                   // The memory is the caller's again.
                   for (auto& block : *memory) std::fill(block.begin(), block.end(), std::byte(0xEE));
                   if (outcomes.size() != operation->keys.size())
                     cluster_->checkers_.violated(fmt::format("a store of {} blocks answered {} outcomes", operation->keys.size(), outcomes.size()));
                   for (size_t i = 0; i < refs.size() && i < outcomes.size(); ++i)
                     cluster_->checkers_.store_ends(refs[i], outcomes[i].code == Code::ok, operation->deadline, cluster_->process_of_owner(outcomes[i].owner, operation->start));
                   operation->stored = std::move(outcomes);
                   end(operation, then);
                 });
  return operation;
}

OperationRef ClusterClient::begin_lookup(std::vector<std::string> keys, bool each, Duration deadline, Then then) {
  auto operation = begin(Operation::Kind::lookup, std::move(keys), deadline, client_->options().lookup_deadline);
  auto answered = [this, operation, each, then = std::move(then)](Result<client::Plan> plan) {
    if (operation->aborted) return;
    auto& cluster = *cluster_;
    if (plan) {
      auto master = cluster.master_ && cluster.master_started_ <= operation->start ? cluster.master_process_ : kWorldProcess;
      for (size_t i = 0; i < plan->lengths.size() && i < operation->keys.size(); ++i)
        if (plan->lengths[i] && (each || i < plan->matched)) cluster.checkers_.found(operation->keys[i], plan->lengths[i], operation->start, master, local_process());
      if (plan->matched > operation->keys.size()) cluster.checkers_.violated("a lookup matched more than was asked");
      operation->plan = std::move(*plan);
    } else {
      operation->code = plan.error().code();
    }
    end(operation, then);
  };
  auto deadline_here = runtime_->now() + (operation->deadline - operation->start);
  if (each) client_->locate(operation->keys, deadline_here, std::move(answered));
  else client_->lookup(operation->keys, deadline_here, std::move(answered));
  return operation;
}

OperationRef ClusterClient::begin_load(std::vector<std::string> keys, const client::Plan* plan, Duration deadline, Then then) {
  auto memory = std::make_shared<std::vector<ByteVector>>();
  std::vector<client::LoadItem> items;
  uint64_t bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    uint64_t length = 64 << 10;
    if (plan && i < plan->lengths.size()) length = std::max(length, plan->lengths[i]);
    if (auto found = cluster_->checkers_.stores().find(keys[i]); found != cluster_->checkers_.stores().end())
      for (auto& store : found->second) length = std::max(length, content_length(keys[i], store.version));
    memory->emplace_back(length);
    bytes += length;
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    auto cut = cluster_->world_.random().below((*memory)[i].size() + 1);
    items.push_back({.key = keys[i], .pieces = {MutableByteSpan((*memory)[i]).first(cut), MutableByteSpan((*memory)[i]).subspan(cut)}});
  }
  auto operation = begin(Operation::Kind::load, std::move(keys), deadline, client_->move_deadline(bytes));
  auto answered = [this, operation, memory, then = std::move(then)](std::vector<client::LoadOutcome> outcomes) {
    if (operation->aborted) return;
    auto& cluster = *cluster_;
    if (outcomes.size() != operation->keys.size())
      cluster.checkers_.violated(fmt::format("a load of {} blocks answered {} outcomes", operation->keys.size(), outcomes.size()));
    uint64_t hash = 0;
    for (size_t i = 0; i < outcomes.size() && i < operation->keys.size(); ++i) {
      auto& outcome = outcomes[i];
      auto& block = operation->loaded.emplace_back(LoadedBlock{.code = outcome.code, .owner = outcome.owner});
      hash = hash64((*memory)[i], hash);
      if (outcome.code != Code::ok) continue;
      if (outcome.length > (*memory)[i].size()) {
        cluster.checkers_.violated(fmt::format("a load of {} answered {} bytes into {}", operation->keys[i], outcome.length, (*memory)[i].size()));
        continue;
      }
      auto landed = ByteSpan((*memory)[i]).first(outcome.length);
      block.version = cluster.checkers_.loaded(operation->keys[i], landed, operation->start, cluster.process_of_owner(outcome.owner, operation->start));
    }
    // The memory is the engine's again: whatever is written there later corrupts it.
    cluster.world_.after(std::chrono::seconds(3), kWorldProcess, [cluster = cluster_, memory, hash] {
      uint64_t now = 0;
      for (auto& block : *memory) now = hash64(block, now);
      if (now != hash) cluster->checkers_.violated("WRITTEN LATE: memory of a load changed after the load had ended");
    });
    end(operation, then);
  };
  auto deadline_here = runtime_->now() + (operation->deadline - operation->start);
  if (plan) client_->load(*plan, std::move(items), deadline_here, std::move(answered));
  else client_->load(std::move(items), deadline_here, std::move(answered));
  return operation;
}

OperationRef ClusterClient::begin_remove(std::vector<std::string> keys, Duration deadline, Then then) {
  for (auto& key : keys) cluster_->checkers_.removal_starts(key);
  auto operation = begin(Operation::Kind::remove, std::move(keys), deadline, std::chrono::seconds(2));
  client_->remove(operation->keys, runtime_->now() + (operation->deadline - operation->start), [this, operation, then = std::move(then)](Result<size_t> removed) {
    if (operation->aborted) return;
    if (removed) operation->removed = *removed;
    else operation->code = removed.error().code();
    end(operation, then);
  });
  return operation;
}

OperationRef ClusterClient::begin_remove_all(Duration deadline, Then then) {
  cluster_->checkers_.removal_starts("");
  auto operation = begin(Operation::Kind::remove_all, {}, deadline, std::chrono::seconds(2));
  client_->remove_all(runtime_->now() + (operation->deadline - operation->start), [this, operation, then = std::move(then)](Status status) {
    if (operation->aborted) return;
    operation->code = status.code();
    end(operation, then);
  });
  return operation;
}

Operation ClusterClient::store(std::vector<std::string> keys, uint32_t version, Duration deadline) {
  std::vector<uint32_t> versions(keys.size(), version);
  return wait(begin_store(std::move(keys), std::move(versions), "", deadline));
}
Operation ClusterClient::ask(std::vector<std::string> keys, bool each, Duration deadline) { return wait(begin_lookup(std::move(keys), each, deadline)); }
client::Plan ClusterClient::lookup(std::vector<std::string> keys, Duration deadline) { return wait(begin_lookup(std::move(keys), false, deadline)).plan; }
client::Plan ClusterClient::locate(std::vector<std::string> keys, Duration deadline) { return wait(begin_lookup(std::move(keys), true, deadline)).plan; }
Operation ClusterClient::load(std::vector<std::string> keys, Duration deadline) { return wait(begin_load(std::move(keys), nullptr, deadline)); }
Operation ClusterClient::load(const client::Plan& plan, std::vector<std::string> keys, Duration deadline) {
  return wait(begin_load(std::move(keys), &plan, deadline));
}
Operation ClusterClient::remove(std::vector<std::string> keys, Duration deadline) { return wait(begin_remove(std::move(keys), deadline)); }
Operation ClusterClient::remove_all(Duration deadline) { return wait(begin_remove_all(deadline)); }

}  // namespace millpond::sim
