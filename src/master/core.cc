#include "master/core.h"

#include "base/log.h"
#include "base/reached.h"
#include "master/json.h"
#include "master/service.h"

namespace millpond::master {
namespace {
std::string_view text(Standing standing) {
  constexpr std::string_view kNames[] = {"alive", "suspect", "dead", "gone"};
  return kNames[size_t(standing)];
}
}  // namespace

Core::Core(Options given, rpc::Runtime& r, Metrics& metrics, std::weak_ptr<Gate> g)
    : options(std::move(given)),
      runtime(r),
      gate(std::move(g)),
      counters(metrics),
      started(r.now()),
      membership({.suspect_after = options.suspect_after, .dead_after = options.dead_after, .sweep_after = options.sweep_after, .stall_gap = 5 * kTick}),
      placement({.ramp = options.ramp}),
      removals({.term = r.identity().master_term, .kept = options.removals_kept}),
      trace(kTraceKept),
      view(term() << 20, kTick) {
  counters.term.set(double(term()));
}

void Core::carry_out(const Changes& changes) {
  bool newcomer = false;
  for (auto& change : changes) {
    directory.set_standing(change.index, change.to);
    placement.set_open(change.index, change.to == Standing::alive);
    view.change();
    newcomer |= change.from == Standing::gone;
    if (change.to >= Standing::dead) pending.lost(change.index);
    if (change.to == Standing::suspect || change.to == Standing::dead)
      log::warn("{} is {} (was {})", name_of(change.index), text(change.to), text(change.from));
    else
      log::info("{} is {}{}", name_of(change.index), text(change.to), change.from == Standing::gone ? " (new)" : "");
    if (change.to != Standing::gone) continue;
    placement.forget(change.index);
    streams.erase(change.index);
    blocks_announced.erase(change.index);
    peers.gone(change.index);
    std::erase_if(connections, [&](auto& connection) { return connection.second == change.index; });
  }
  if (newcomer) view.refresh(membership, placement, now(), true);
  if (!changes.empty()) judge_warming();
}

void Core::confirmed(NodeIndex index, uint64_t removal_last) { pending.confirmed(index, removal_last); }

void Core::tick() {
  Time at = now();
  Changes changes;
  membership.tick(at, changes);
  carry_out(changes);

  directory.sweep(kSweepSlots, [&](const BlockId& id, NodeIndex last) {
    counters.owner_lost.add();
    auto known = facts.find(last);
    trace.record({id, known == facts.end() ? NodeId{} : known->second.id, at, Departure::owner_lost});
  });
  auto gone = membership.gone();                           // a copy: release() takes from it
  for (NodeIndex index : gone) {
    if (!directory.swept(index)) continue;
    directory.reset(index);
    membership.release(index);
    facts.erase(index);
  }

  if (placement.update(at)) view.change();
  view.refresh(membership, placement, at, false);
  peers.push_all(*this);

  counters.blocks.set(double(directory.blocks()));
  counters.bytes.set(double(directory.bytes()));
  judge_warming();
  for (size_t i = 0; i < counters.nodes.size(); ++i) counters.nodes[i]->set(double(membership.count(Standing(i))));
  tick_timer = runtime.after(kTick, later([](Core& core) { core.tick(); }));
}

void Core::judge_warming() {
  // Who will come is not known yet: nodes retry their join twice a second, so after this they are here if they live.
  warming = now() - started < options.suspect_after;
  for (auto& [index, stream] : streams) warming |= !stream.complete && directory.standing(index) <= Standing::suspect;
  counters.warming.set(warming);
}

std::string Core::name_of(NodeIndex index) const {
  auto known = facts.find(index);
  if (known == facts.end()) return fmt::format("node #{}", index.value);
  return fmt::format("node {} ({:016x} at {})", known->second.name, known->second.id.value, known->second.address);
}

std::string Core::explain(const BlockId& id, double& seconds_ago, std::string& node) const {
  seconds_ago = 0;
  node.clear();
  std::string live, dead;
  for (NodeIndex holder : directory.holders(id)) {
    std::string& list = directory.standing(holder) == Standing::dead ? dead : live;
    if (!list.empty()) list += ", ";
    list += facts.contains(holder) ? facts.at(holder).name : fmt::format("#{}", holder.value);
  }
  if (!live.empty()) {
    node = live;
    return "present";
  }
  if (!dead.empty()) {
    node = dead;
    return "its only owner is dead; it is back when that node returns";
  }
  if (auto departed = trace.find(id)) {
    seconds_ago = seconds(now() - departed->when);
    if (departed->node.value) {
      const Member* member = membership.find(departed->node);
      node = member ? member->facts.name : fmt::format("{:016x}", departed->node.value);
    }
    return std::string(text(departed->why));
  }
  if (warming) return "not known yet: nodes are still streaming their inventories";
  return "never seen, or gone so long that its trace was overwritten";
}

std::string Core::state_json() const {
  Json j;
  Time at = now();
  uint64_t capacity = 0, used = 0, free = 0;
  j.open('{').field("address", address).field("term", term()).field("uptime_seconds", seconds(at - started)).field("warming", warming);
  j.key("nodes").open('[');
  for (const Member* member : membership.members()) {
    const NodeLoad* load = placement.load(member->index);
    auto stream = streams.find(member->index);
    auto announced = blocks_announced.find(member->index);
    j.open('{').field("index", uint64_t(member->index.value)).field("id", fmt::format("{:016x}", member->facts.id.value));
    j.field("epoch", member->facts.epoch.value).field("name", member->facts.name).field("address", member->facts.address);
    j.field("local_socket", member->facts.local_socket).field("state", text(member->standing)).field("must_rejoin", member->must_rejoin);
    j.field("silent_seconds", seconds(at - member->heard)).field("blocks", directory.replicas(member->index));
    j.field("blocks_at_join", announced == blocks_announced.end() ? uint64_t(0) : announced->second);
    j.field("inventory_complete", stream != streams.end() && stream->second.complete);
    j.field("removal_last", peers.position(member->index)).field("weight", double(placement.weight(member->index)) / Placement::kWhole);
    if (load) {
      j.field("capacity_bytes", load->capacity_bytes).field("used_bytes", load->used_bytes).field("free_bytes", load->free_bytes);
      j.key("victim_age_seconds").value(load->victim_age == Duration::max() ? INFINITY : seconds(load->victim_age));   // null: no victim soon
      j.field("age_seconds", seconds(at - load->born));
      capacity += load->capacity_bytes, used += load->used_bytes, free += load->free_bytes;
    }
    j.close('}');
  }
  j.close(']');
  j.key("totals").open('{').field("nodes_alive", membership.count(Standing::alive)).field("nodes_suspect", membership.count(Standing::suspect));
  j.field("nodes_dead", membership.count(Standing::dead)).field("blocks", directory.blocks()).field("directory_bytes", directory.bytes());
  j.field("capacity_bytes", capacity).field("used_bytes", used).field("free_bytes", free).close('}');
  j.key("removals").open('{').field("last", removals.last()).field("kept", removals.size()).field("issued_again", removals.issued_again());
  j.field("waiting", pending.size()).field("unconfirmed", counters.unconfirmed.value()).close('}');
  auto& m = membership.counters();
  j.key("counters").open('{').field("lookups", counters.lookups.value()).field("keys", counters.keys.value()).field("hits", counters.hits.value());
  j.field("lookup_p50_seconds", seconds(counters.lookup_seconds.quantile(0.5))).field("lookup_p99_seconds", seconds(counters.lookup_seconds.quantile(0.99)));
  constexpr const char* kAnswers[] = {"items_first", "items_replica", "items_refused", "items_removed", "items_noted"};
  for (size_t i = 0; i < 5; ++i) j.field(kAnswers[i], counters.answers[i]->value());
  j.field("batches_stale", counters.stale_batches.value()).field("batches_repeated", counters.repeated_batches.value());
  j.field("reports", counters.reports.value()).field("joins", m.joins).field("deaths", m.deaths).field("returns", m.returns);
  j.field("stalls", m.stalls).field("mass_graces", m.graces).field("touch_runs", counters.touches.value());
  j.field("touch_runs_dropped", counters.touches_dropped.value()).close('}');
  j.close('}');
  return j.text();
}

// ---- Gate ----

std::shared_ptr<Gate> Gate::make() {
  static Mutex mutex;
  static auto* all = new std::vector<std::shared_ptr<Gate>>;
  auto gate = std::make_shared<Gate>();
  Lock lock(mutex);
  all->push_back(gate);
  return gate;
}

void Gate::open(std::unique_ptr<Core> core) {
  Lock lock(mutex_);
  core_ = std::move(core);
}

void Gate::close() {
  std::unique_ptr<Core> ended;                             // destroyed after the lock: channels end their calls
  Lock lock(mutex_);
  ended = std::move(core_);
}

void Gate::serve(rpc::Request request, std::shared_ptr<rpc::Responder> responder) {
  Lock lock(mutex_);
  if (!core_) return responder->fail(Status(Code::unavailable, "this master has ended"));
  master::serve(*core_, std::move(request), std::move(responder));
}

void Gate::closed(ConnectionId connection) {
  Lock lock(mutex_);
  if (!core_) return;
  auto found = core_->connections.find(connection);
  if (found == core_->connections.end()) return;
  NodeIndex index = found->second;
  core_->connections.erase(found);
  Changes changes;
  core_->membership.connection_lost(index, changes);
  core_->carry_out(changes);
}

}  // namespace millpond::master
