// What nodes say.
#include <algorithm>

#include "base/log.h"
#include "base/reached.h"
#include "master/codec.h"
#include "master/core.h"
#include "master/service.h"

namespace millpond::master {
namespace {
constexpr size_t kTextBytesMax = 256;
constexpr uint64_t kAgeNeverMs = 1'000'000'000'000;         // 31 years and more: "no victim soon"

Duration from_ms(uint64_t ms) { return std::chrono::milliseconds(int64_t(std::min(ms, kAgeNeverMs))); }
Duration victim_age(uint64_t ms) { return ms >= kAgeNeverMs ? Duration::max() : from_ms(ms); }

// A node speaks for itself only. Who said no id in its Hello (a tool) may say anything.
Status check_speaker(const rpc::Caller& caller, uint64_t node_id, uint64_t epoch) {
  if (caller.node_id.value && (caller.node_id.value != node_id || caller.node_epoch.value != epoch))
    return Status(Code::refused, "node {:016x} (epoch {}) speaks for node {:016x} (epoch {})", caller.node_id.value, caller.node_epoch.value, node_id,
                  epoch);
  return {};
}

Result<std::string> text_within(const flatbuffers::String* text, const char* what, size_t max = kTextBytesMax) {
  auto view = wire::text_of(text);
  if (view.size() > max) return error(Code::invalid, "a node's {} of {} bytes; at most {}", what, view.size(), max);
  return std::string(view);
}

void refuse_join(Core& core, const Answer& answer, const Status& why) {
  wire::Builder b;
  auto reason = b.CreateString(why.message());
  answer->answer(message(wire::Kind::join_reply, b, wire::CreateJoinReply(b, uint8_t(why.code()), reason, core.term())));
  log::warn("a join was refused: {}", why.text());
}
}  // namespace

Served serve_join(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* told, wire::parse<wire::Join>(request.body));
  MP_OK(check_speaker(request.caller, told->node_id(), told->epoch()));
  if (!told->node_id()) return error(Code::invalid, "a node needs an id other than 0");
  NodeFacts facts{.id = NodeId(told->node_id()), .epoch = NodeEpoch(told->epoch()), .host_id = told->host_id()};
  MP_TRY(facts.name, text_within(told->name(), "name"));
  MP_TRY(facts.address, text_within(told->address(), "address"));
  MP_TRY(facts.local_socket, text_within(told->local_socket(), "socket path"));
  if (facts.address.empty()) return error(Code::invalid, "node {} has no address: nobody could reach it", facts.name);
  MP_TRY(auto tail, taken<RemovalRecord>(told->removals(), "removals", 256 << 10));
  MP_TRY(auto told_generations, taken<wire::NamespaceGeneration>(told->generations(), "namespaces"));
  if (!core.removals.plausible(told->removal_last())) {
    MP_REACHED("a node has seen a later master");
    refuse_join(core, answer, Status(Code::stale, "node {} has applied removal {}, which only a master later than term {} can have issued: end this one",
                                     facts.name, told->removal_last(), core.term()));
    return {};
  }

  Time at = core.now();
  Changes changes;
  auto joined = core.membership.join(facts, at, changes);
  if (!joined) return refuse_join(core, answer, joined.error()), Served();
  NodeIndex index = *joined;
  core.facts[index] = facts;
  // Where it stands counts from the merge on: no log that reaches back to here reaches further.
  auto news = core.removals.merge(told->removal_last(), tail);
  for (auto& record : news)
    if (record.kind == RemovalKind::block && core.directory.remove(record.id)) core.trace.record({record.id, NodeId{}, at, Departure::removed});
  for (auto& g : told_generations) core.removals.learn_generation(NamespaceId(g.namespace_id()), g.generation());

  core.placement.report(index, {.capacity_bytes = told->capacity_bytes(), .used_bytes = told->used_bytes(), .free_bytes = told->free_bytes(),
                                .victim_age = victim_age(told->victim_age_ms()), .born = at - from_ms(told->node_age_ms())});
  core.placement.update(at);
  core.view.change();
  core.connections[request.caller.connection] = index;
  core.carry_out(changes);
  core.peers.joined(core, index, told->removal_last());
  core.blocks_announced[index] = told->blocks();
  uint32_t round = core.directory.begin_round(index);
  core.streams[index].begin(round);
  core.judge_warming();

  wire::Builder b;
  bool reaches = core.removals.reaches(told->removal_last());
  auto missed = core.removals.since(told->removal_last());
  auto records = given<wire::Removal>(b, missed);
  std::vector<uint32_t> dropped;
  if (!reaches) {
    MP_REACHED("the log does not reach back to a node");
    for (NamespaceId space : core.removals.touched_beyond_reach(told->removal_last())) dropped.push_back(space.value);
    if (told->blocks())                    // a new node has nothing to drop: no news for anybody
      log::warn("{} missed removals that nobody remembers: it drops {}", core.name_of(index),
                dropped.empty() ? std::string("all its blocks") : fmt::format("its blocks of {} namespaces", dropped.size()));
  }
  auto drop = b.CreateVector(dropped);
  std::vector<wire::NamespaceGeneration> generations;
  for (auto [space, generation] : core.removals.generations()) generations.emplace_back(space.value, generation);
  auto raised = b.CreateVectorOfStructs(generations.data(), generations.size());
  answer->answer(message(wire::Kind::join_reply, b,
                         wire::CreateJoinReply(b, uint8_t(Code::ok), 0, core.term(), index.value, records, reaches, drop, raised,
                                               uint32_t(milliseconds(core.options.heartbeat_interval)), round)));
  log::info("{} joined as #{}, round {}: {} blocks to come, {} removals missed", core.name_of(index), index.value, round, told->blocks(), missed.size());
  return {};
}

Served serve_heartbeat(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* told, wire::parse<wire::Heartbeat>(request.body));
  MP_OK(check_speaker(request.caller, told->node_id(), told->epoch()));
  Time at = core.now();
  Changes changes;
  Code code = core.membership.heard(NodeId(told->node_id()), NodeEpoch(told->epoch()), at, changes);
  core.carry_out(changes);
  if (code == Code::ok) {
    NodeIndex index = core.membership.find(NodeId(told->node_id()))->index;
    core.connections[request.caller.connection] = index;
    if (const NodeLoad* known = core.placement.load(index)) {
      NodeLoad load = *known;
      load.used_bytes = told->used_bytes();
      load.free_bytes = told->free_bytes();
      load.victim_age = victim_age(told->victim_age_ms());
      core.placement.report(index, load);
    }
    if (core.removals.plausible(told->removal_last())) {
      core.confirmed(index, told->removal_last());
      core.peers.stands_at(core, index, told->removal_last());
    }
  }
  wire::Builder b;
  answer->answer(message(wire::Kind::heartbeat_reply, b, wire::CreateHeartbeatReply(b, uint8_t(code), core.term())));
  return {};
}

Served serve_advertise(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* told, wire::parse<wire::Advertise>(request.body));
  MP_OK(check_speaker(request.caller, told->node_id(), told->epoch()));
  MP_TRY(auto items, taken<AdvertItem>(told->items(), "items"));
  auto reply = [&](Code code, uint64_t acked, std::span<const AdvertAnswer> answers) {
    wire::Builder b;
    auto list = b.CreateVector(reinterpret_cast<const uint8_t*>(answers.data()), answers.size());
    answer->answer(message(wire::Kind::advertise_reply, b, wire::CreateAdvertiseReply(b, uint8_t(code), acked, list)));
    if (code == Code::stale) core.counters.stale_batches.add();
    return Served();
  };

  Time at = core.now();
  Changes changes;
  Code heard = told->term() == core.term() ? core.membership.heard(NodeId(told->node_id()), NodeEpoch(told->epoch()), at, changes) : Code::stale;
  core.carry_out(changes);
  if (heard != Code::ok) return reply(Code::stale, 0, {});
  NodeIndex index = core.membership.find(NodeId(told->node_id()))->index;
  NodeStream& stream = core.streams[index];
  uint64_t seen = told->removals_seen();
  if (told->inventory_round() != stream.round) return reply(Code::stale, stream.acked, {});
  switch (stream.judge(told->sequence_first(), items.size())) {
    case NodeStream::Verdict::gap:
      MP_REACHED("stream gap");
      return reply(Code::stale, stream.acked, {});
    case NodeStream::Verdict::repeated:
      MP_REACHED("a batch came again");
      core.counters.repeated_batches.add();
      return reply(Code::ok, stream.acked, stream.answers);
    case NodeStream::Verdict::next: break;
  }
  if (!core.removals.reaches(seen) || !core.removals.plausible(seen)) {
    MP_REACHED("a batch from before the removal log");
    core.membership.require_rejoin(index);
    return reply(Code::stale, stream.acked, {});
  }
  core.confirmed(index, seen);
  core.peers.stands_at(core, index, seen);

  std::vector<uint8_t> removed;
  if (seen < core.removals.last()) {
    removed.resize(items.size());
    for (size_t i = 0; i < items.size(); ++i) removed[i] = core.removals.removed_since(items[i].id, seen);
  }
  AdvertOutcome outcome;
  core.directory.advertise(index, items, removed, outcome);
  for (uint32_t i : outcome.departed) {
    bool evicted = items[i].kind == AdvertKind::evict;
    Departure why = evicted ? Departure::evicted : items[i].reason <= uint16_t(Departure::replaced) ? Departure(items[i].reason) : Departure::none;
    core.trace.record({items[i].id, NodeId(told->node_id()), at, why});
  }
  for (NodeIndex other : outcome.must_rejoin) {
    if (const Member* member = core.membership.at(other); member && !member->must_rejoin)
      log::warn("{} is dead and held other bytes than {}: it must join again", core.name_of(other), core.name_of(index));
    core.membership.require_rejoin(other);
  }
  for (AdvertAnswer a : outcome.answers) core.counters.answers[size_t(a)]->add();
  stream.applied(told->sequence_first(), std::move(outcome.answers));
  if (told->inventory_complete() && !stream.complete) {
    core.directory.complete_round(index);
    stream.complete = true;
    core.judge_warming();
    log::info("{} has told everything: {} blocks", core.name_of(index), core.directory.replicas(index));
  }
  return reply(Code::ok, stream.acked, items.empty() ? std::span<const AdvertAnswer>() : stream.answers);
}

Served serve_leave(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* told, wire::parse<wire::Leave>(request.body));
  MP_OK(check_speaker(request.caller, told->node_id(), told->epoch()));
  Changes changes;
  core.membership.leave(NodeId(told->node_id()), NodeEpoch(told->epoch()), changes);
  core.carry_out(changes);
  wire::Builder b;
  answer->answer(message(wire::Kind::leave_reply, b, wire::CreateLeaveReply(b, uint8_t(Code::ok))));
  return {};
}

void serve(Core& core, rpc::Request request, Answer answer) {
  auto dispatch = [&]() -> Served {
    if (request.deadline <= core.now()) return error(Code::timed_out, "the deadline of this {} had passed before it was served", wire::name(request.kind));
    switch (request.kind) {
      case wire::Kind::lookup: return serve_lookup(core, request, answer);
      case wire::Kind::remove: return serve_remove(core, request, answer);
      case wire::Kind::remove_all: return serve_remove_all(core, request, answer);
      case wire::Kind::open_namespace: return serve_open_namespace(core, request, answer);
      case wire::Kind::report: return serve_report(core, request, answer);
      case wire::Kind::explain: return serve_explain(core, request, answer);
      case wire::Kind::stat: return serve_stat(core, request, answer);
      case wire::Kind::join: return serve_join(core, request, answer);
      case wire::Kind::heartbeat: return serve_heartbeat(core, request, answer);
      case wire::Kind::advertise: return serve_advertise(core, request, answer);
      case wire::Kind::leave: return serve_leave(core, request, answer);
      default: return error(Code::invalid, "a master does not serve {} ({})", wire::name(request.kind), unsigned(request.kind));
    }
  };
  Served served = dispatch();
  if (served) return;
  core.counters.invalid.add();
  answer->fail(std::move(served).error());
}

}  // namespace millpond::master
