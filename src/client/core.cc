#include "client/core.h"

#include <algorithm>

#include "base/log.h"
#include "base/reached.h"

namespace millpond::client {
namespace {
constexpr Duration kReportDeadline = std::chrono::seconds(1);   // nobody waits for it
constexpr size_t kReportIdsMax = 1024;
}  // namespace

Core::Core(Options o, rpc::Runtime& r, Metrics& m, std::shared_ptr<transfer::Owner> l, NodeId id)
    : options(std::move(o)), runtime(r), metrics(m), counters(m), local(std::move(l)), local_id(id),
      master_(r.channel({.address = options.master})), random_(r.random()) {}

void Core::close() {
  std::shared_ptr<rpc::Channel> master;
  std::map<NodeId, Known> nodes;
  Lock lock(mutex_);
  closed_ = true;
  master.swap(master_);
  nodes.swap(nodes_);                    // `lock` goes first, then these: channels close unlocked
}

bool Core::proves_failure(Code code, Duration given) const {
  // A deadline too short to answer in says nothing about the one who was asked.
  return code == Code::unavailable || (code == Code::timed_out && given >= options.lookup_deadline / 2);
}

void Core::master_result(Code code, Duration given) {
  bool went = false;
  {
    Lock lock(mutex_);
    if (proves_failure(code, given)) {
      went = runtime.now() >= master_away_until_;
      master_away_until_ = runtime.now() + options.breaker_open;
      view_version_ = 0;                 // whoever answers next may be another master: take its view whole
    } else if (code == Code::ok) {
      master_away_until_ = Time{Duration::min()};
    }
  }
  if (!went) return;
  MP_REACHED("client: master away");
  counters.master_away.add();
}

void Core::ask_master(wire::Kind kind, ByteVector body, wire::Kind expected, Time deadline,
                      std::function<void(Result<rpc::Reply>)> done) {
  ask_master(kind, std::move(body), expected, deadline, /*last=*/false, std::move(done));
}

// A connection to a host that has vanished looks open until it is used: the first call breaks it, the second one finds
// the master that is there now. Every question may be asked twice.
void Core::ask_master(wire::Kind kind, ByteVector body, wire::Kind expected, Time deadline, bool last,
                      std::function<void(Result<rpc::Reply>)> done) {
  std::shared_ptr<rpc::Channel> master;
  {
    Lock lock(mutex_);
    master = master_;
  }
  if (!master) return runtime.post([done = std::move(done)] { done(error(Code::unavailable, "this client is closed")); });
  Duration given = deadline - runtime.now();
  rpc::Message request{.kind = kind, .body = last ? std::move(body) : body};
  master->call(std::move(request), deadline, nullptr,
               [self = shared_from_this(), kind, body = std::move(body), expected, deadline, last, given,
                done = std::move(done)](Result<rpc::Reply> reply) mutable {
    if (!reply && reply.error().code() == Code::unavailable && !last && self->runtime.now() < deadline) {
      MP_REACHED("client: the master was asked again");
      return self->ask_master(kind, std::move(body), expected, deadline, /*last=*/true, std::move(done));
    }
    self->master_result(reply ? Code::ok : reply.error().code(), given);
    if (reply && reply->kind != expected)
      reply = error(Code::corrupt, "the master at {} answered {} where {} was due", self->options.master, wire::name(reply->kind),
                    wire::name(expected));
    done(std::move(reply));
  });
}

bool Core::master_away() {
  Lock lock(mutex_);
  return runtime.now() < master_away_until_;
}

void Core::open(Time deadline, std::function<void(Status)> done) {
  wire::Builder builder;
  auto tenant = builder.CreateString(options.tenant), name = builder.CreateString(options.namespace_name);
  auto body = wire::finish(builder, wire::CreateOpenNamespace(builder, tenant, name, view_version()));
  ask_master(wire::Kind::open_namespace, std::move(body), wire::Kind::open_namespace_reply, deadline,
             [self = shared_from_this(), done = std::move(done)](Result<rpc::Reply> reply) {
    if (!reply) return done(reply.error());
    auto parsed = wire::parse<wire::OpenNamespaceReply>(reply->body);
    if (!parsed) return done(parsed.error());
    if (Code((*parsed)->code()) != Code::ok)
      return done(Status(Code((*parsed)->code()), "{}", wire::text_of((*parsed)->reason())));
    self->learn_generation((*parsed)->generation());
    self->learn((*parsed)->view());
    done({});
  });
}

Namespace Core::space() {
  Lock lock(mutex_);
  return {options.tenant, options.namespace_name, generation_};
}

void Core::learn_generation(uint32_t generation) {
  Lock lock(mutex_);
  generation_ = std::max(generation_, generation);
}

void Core::learn(const wire::ClusterView* view) {
  if (!view) return;
  std::map<NodeId, Known> fresh;
  std::map<uint16_t, NodeId> by_index;
  if (auto* nodes = view->nodes())
    for (auto* info : *nodes) {
      Node node{NodeId(info->node_id()), NodeEpoch(info->epoch()), std::string(wire::text_of(info->name())),
                std::string(wire::text_of(info->address())), std::string(wire::text_of(info->local_socket())), info->host_id(),
                info->state() == wire::NodeState::alive, info->weight()};
      // One process after another under the same id: the view lists what lives last, or first; the later boot counts.
      auto& known = fresh[node.id];
      by_index[info->index()] = node.id;
      if (node.epoch >= known.node.epoch) known.node = std::move(node);
    }
  std::map<NodeId, Known> old;           // owners close unlocked
  Lock lock(mutex_);
  if (closed_) return;
  for (auto& [id, known] : fresh) {
    auto before = nodes_.find(id);
    if (before == nodes_.end() || before->second.node.epoch != known.node.epoch) continue;
    known.aside_until = before->second.aside_until;
    auto& was = before->second.node;
    if (was.address == known.node.address && was.local_socket == known.node.local_socket && was.host_id == known.node.host_id)
      known.owner = before->second.owner;
  }
  old.swap(nodes_);
  nodes_.swap(fresh);
  by_index_ = std::move(by_index);
  view_version_ = view->version();
}

uint64_t Core::view_version() {
  Lock lock(mutex_);
  return view_version_;
}

Located Core::located(uint16_t node_index, uint8_t tier) {
  Lock lock(mutex_);
  auto found = by_index_.find(node_index);
  if (found == by_index_.end()) {
    MP_REACHED("client: replica at an unknown node");
    view_version_ = 0;                   // ask for the whole view next time
    return {};
  }
  auto& node = nodes_[found->second].node;
  return {node.id, node.name, node.address, tier};
}

Located Core::located_here() {
  Lock lock(mutex_);
  auto found = nodes_.find(local_id);
  if (found == nodes_.end()) return {local_id, "here", "", 0};
  return {local_id, found->second.node.name, found->second.node.address, 0};
}

int Core::distance(NodeId id) {
  if (local && id == local_id) return 0;
  Lock lock(mutex_);
  auto found = nodes_.find(id);
  if (found == nodes_.end() || !found->second.node.alive) return 3;
  return found->second.node.host_id != 0 && found->second.node.host_id == transfer::this_host_id() ? 1 : 2;
}

std::string Core::name_of(NodeId id) {
  Lock lock(mutex_);
  auto found = nodes_.find(id);
  return found != nodes_.end() ? found->second.node.name : local && id == local_id ? "here" : "";
}

std::shared_ptr<transfer::Owner> Core::owner(NodeId id) {
  bool here = local && id == local_id;
  Lock lock(mutex_);
  if (closed_) return nullptr;
  if (here && options.transports.local) return local;
  auto found = nodes_.find(id);
  if (found == nodes_.end() || runtime.now() < found->second.aside_until) return nullptr;
  auto& [node, owner, aside] = found->second;
  if (!owner)
    owner = transfer::connect({node.id, node.epoch, node.address, node.local_socket, node.host_id}, options.transports, nullptr,
                              runtime, metrics);
  return owner;
}

NodeId Core::place(const std::vector<NodeId>& tried) {
  auto was_tried = [&](NodeId id) { return std::find(tried.begin(), tried.end(), id) != tried.end(); };
  Lock lock(mutex_);
  std::vector<Candidate> candidates;
  bool here_listed = false;
  uint32_t best = 1;
  for (auto& [id, known] : nodes_) {
    bool here = local && id == local_id;
    here_listed |= here;
    best = std::max(best, known.node.weight);
    candidates.push_back({.node = id,
                          .weight = known.node.weight,
                          .in_process = here && options.transports.local,
                          .same_host = known.node.host_id != 0 && known.node.host_id == transfer::this_host_id(),
                          .usable = (known.node.alive || here) && runtime.now() >= known.aside_until && !was_tried(id)});
  }
  // A node in this process that the master has not listed yet is as good as the best.
  if (local && !here_listed && options.transports.local)
    candidates.push_back({.node = local_id, .weight = best, .in_process = true, .usable = !was_tried(local_id)});
  auto chosen = choose(candidates, random_);
  return chosen ? candidates[*chosen].node : NodeId();
}

void Core::failed(NodeId node, Code code, Duration given, std::vector<BlockId> ids) {
  uint64_t epoch = 0;
  bool opened = false;
  {
    Lock lock(mutex_);
    if (closed_) return;
    auto found = nodes_.find(node);
    if (found == nodes_.end()) return;
    epoch = found->second.node.epoch.value;
    if (proves_failure(code, given)) {
      opened = runtime.now() >= found->second.aside_until;
      found->second.aside_until = runtime.now() + options.breaker_open;
    }
  }
  if (opened) {
    MP_REACHED("client: breaker opened");
    counters.breaker_opened.add();
    log::info("client: node {} {}; not asked for {} ms", name_of(node), name(code), milliseconds(options.breaker_open));
  }
  if (master_away()) return;
  if (ids.size() > kReportIdsMax) ids.resize(kReportIdsMax);
  wire::Builder builder;
  auto body = wire::finish(builder, wire::CreateReport(builder, node.value, epoch, uint8_t(code), wire::ids(builder, ids)));
  ask_master(wire::Kind::report, std::move(body), wire::Kind::report_reply, runtime.now() + kReportDeadline,
             [](Result<rpc::Reply>) {});
}

}  // namespace millpond::client
