// What clients ask.
#include <algorithm>

#include "base/log.h"
#include "base/reached.h"
#include "master/codec.h"
#include "master/core.h"
#include "master/service.h"

namespace millpond::master {
namespace {

// All ids of a request are of one namespace: its generation is checked once.
Result<NamespaceId> namespace_of(std::span<const BlockId> ids) {
  uint32_t space = ids.empty() ? 0 : ids[0].namespace_id;
  for (auto& id : ids)
    if (id.namespace_id != space)
      return error(Code::invalid, "ids of namespaces {:08x} and {:08x} in one request: send one request for each", space, id.namespace_id);
  return NamespaceId(space);
}

std::set<NodeIndex> live_nodes(const Core& core) {
  std::set<NodeIndex> nodes;
  for (const Member* member : core.membership.members())
    if (member->standing != Standing::dead) nodes.insert(member->index);
  return nodes;
}

// Sends what was just issued and answers when all live nodes have it, or when time is up. The reply has a fifth of the
// caller's remaining time to travel.
void answer_when_confirmed(Core& core, const rpc::Request& request, PendingRemovals::Answer answer) {
  Time at = core.now();
  Duration limit = std::min<Duration>(core.options.removal_deadline, (request.deadline - at) / 5 * 4);
  auto counted = [&core, answer = std::move(answer)](uint32_t unconfirmed) {   // waits inside core: it cannot outlive it
    if (unconfirmed) {
      MP_REACHED("removal not confirmed in time");
      core.counters.unconfirmed.add(unconfirmed);
    }
    answer(unconfirmed);
  };
  uint64_t ticket = core.pending.wait(core.removals.last(), live_nodes(core), std::move(counted));
  core.peers.push_all(core);
  if (ticket) core.pending.keep(ticket, core.runtime.after(limit, core.later([ticket](Core& core) { core.pending.expire(ticket); })));
}

// Refuses what would push removals out of the log that a node is just about to be sent: it would have to drop whole
// namespaces. A node that does not move is not waited for.
Status check_room(const Core& core, size_t more) {
  if (more > core.options.removals_kept)
    return Status(Code::invalid, "{} removals at once; this master remembers {}: cut the request", more, core.options.removals_kept);
  if (core.pending.full()) return Status(Code::overloaded, "{} removals wait for nodes already", core.pending.size());
  uint64_t floor = core.removals.floor_after(more);
  for (const Member* member : core.membership.members())
    if (member->standing == Standing::alive && core.peers.catches_up(core, member->index) && core.peers.position(member->index) < floor)
      return Status(Code::overloaded, "{} has not yet applied earlier removals: try again", core.name_of(member->index));
  return {};
}
}  // namespace

Served serve_lookup(Core& core, const rpc::Request& request, const Answer& answer) {
  Time arrived = core.now();
  MP_TRY(const auto* asked, wire::parse<wire::Lookup>(request.body));
  MP_TRY(auto ids, taken<BlockId>(asked->ids(), "ids"));
  MP_TRY(NamespaceId space, namespace_of(ids));
  uint32_t generation = core.removals.generation(space);

  LookupAnswer found;
  bool stale = asked->generation() < generation;
  if (!stale) {
    if (asked->each())
      core.directory.lookup_each(ids, found);
    else
      core.directory.lookup_prefix(ids, found);
    if (asked->touch())
      for_each_run(found.replicas, [&](NodeIndex node, uint32_t last, uint32_t length) { core.peers.touch(core, node, ids[last], length); });
  }

  wire::Builder b(256 + found.replicas.size() * sizeof(FoundReplica) + found.lengths.size() * sizeof(uint32_t));
  auto view = view_for(b, core.view, core.term(), asked->view_version());
  auto replicas = given<wire::Replica>(b, found.replicas);
  auto lengths = b.CreateVector(found.lengths);
  answer->answer(message(wire::Kind::lookup_reply, b,
                         wire::CreateLookupReply(b, uint8_t(stale ? Code::stale : Code::ok), generation, found.matched, replicas, lengths,
                                                 core.warming, view)));
  core.counters.lookups.add();
  core.counters.keys.add(ids.size());
  core.counters.hits.add(found.matched);
  core.counters.lookup_seconds.add(core.now() - arrived);
  return {};
}

Served serve_remove(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* asked, wire::parse<wire::Remove>(request.body));
  MP_TRY(auto ids, taken<BlockId>(asked->ids(), "ids"));
  MP_TRY(NamespaceId space, namespace_of(ids));
  uint32_t generation = core.removals.generation(space);
  auto reply = [answer, generation](Code code, uint32_t removed, uint32_t unconfirmed) {
    wire::Builder b;
    answer->answer(message(wire::Kind::remove_reply, b, wire::CreateRemoveReply(b, uint8_t(code), generation, removed, unconfirmed)));
  };
  if (asked->generation() < generation) return reply(Code::stale, 0, 0), Served();
  if (ids.empty()) return reply(Code::ok, 0, 0), Served();
  MP_OK(check_room(core, ids.size()));

  uint32_t removed = 0;
  Time at = core.now();
  for (auto& id : ids) {
    bool was_here = core.directory.remove(id);
    removed += was_here;
    core.removals.remove(id);              // unknown ones too: a node may hold what it has not told us yet
    if (was_here) core.trace.record({id, NodeId{}, at, Departure::removed});
  }
  core.counters.removals.add(ids.size());
  answer_when_confirmed(core, request, [reply, removed](uint32_t unconfirmed) { reply(Code::ok, removed, unconfirmed); });
  return {};
}

Served serve_remove_all(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* asked, wire::parse<wire::RemoveAll>(request.body));
  std::string tenant(wire::text_of(asked->tenant())), name(wire::text_of(asked->name()));
  NamespaceId space = Namespace{.tenant = tenant, .name = name}.id();
  MP_OK(core.namespaces.open(space, tenant, name));
  MP_OK(check_room(core, 1));
  MP_TRY(uint32_t generation, core.removals.wipe(space, asked->generation()));
  core.counters.removals.add();
  log::info("namespace {}/{} is wiped: generation {}", tenant, name, generation);
  answer_when_confirmed(core, request, [answer, generation](uint32_t unconfirmed) {
    wire::Builder b;
    answer->answer(message(wire::Kind::remove_all_reply, b, wire::CreateRemoveAllReply(b, uint8_t(Code::ok), generation, unconfirmed)));
  });
  return {};
}

Served serve_open_namespace(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* asked, wire::parse<wire::OpenNamespace>(request.body));
  std::string tenant(wire::text_of(asked->tenant())), name(wire::text_of(asked->name()));
  NamespaceId space = Namespace{.tenant = tenant, .name = name}.id();
  Status opened = core.namespaces.open(space, tenant, name);
  wire::Builder b;
  auto reason = b.CreateString(opened.message());
  auto view = opened.ok() ? view_for(b, core.view, core.term(), asked->view_version()) : flatbuffers::Offset<wire::ClusterView>();
  answer->answer(message(wire::Kind::open_namespace_reply, b,
                         wire::CreateOpenNamespaceReply(b, uint8_t(opened.code()), reason, core.removals.generation(space), view)));
  return {};
}

Served serve_report(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* told, wire::parse<wire::Report>(request.body));
  MP_TRY(auto ids, taken<BlockId>(told->ids(), "ids"));
  core.counters.reports.add();
  const Member* member = core.membership.find(NodeId(told->node_id()), NodeEpoch(told->epoch()));
  // One reader's word is not enough: we try the node ourselves, and believe what our own connection says.
  if (member && told->code() == uint8_t(Code::unavailable)) core.peers.probe(core, member->index);
  if (member && told->code() == uint8_t(Code::corrupt)) {
    MP_REACHED("a reader reported corrupt blocks");
    log::warn("a reader at {} reports {} corrupt blocks of {}; the first is {}", request.caller.address, ids.size(), core.name_of(member->index),
              ids.empty() ? std::string("not named") : millpond::text(ids[0]));
  }
  wire::Builder b;
  answer->answer(message(wire::Kind::report_reply, b, wire::CreateReportReply(b, uint8_t(member ? Code::ok : Code::stale))));
  return {};
}

Served serve_explain(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY(const auto* asked, wire::parse<wire::Explain>(request.body));
  if (!asked->id()) return error(Code::invalid, "explain needs an id");
  BlockId id;
  std::memcpy(static_cast<void*>(&id), static_cast<const void*>(asked->id()), sizeof id);   // perhaps not aligned
  double seconds_ago = 0;
  std::string node, reason = core.explain(id, seconds_ago, node);
  wire::Builder b;
  auto reason_text = b.CreateString(reason), node_text = b.CreateString(node);
  answer->answer(message(wire::Kind::explain_reply, b, wire::CreateExplainReply(b, reason_text, seconds_ago, node_text)));
  return {};
}

Served serve_stat(Core& core, const rpc::Request& request, const Answer& answer) {
  MP_TRY([[maybe_unused]] const auto* asked, wire::parse<wire::Stat>(request.body));
  wire::Builder b;
  auto json = b.CreateString(core.state_json());
  answer->answer(message(wire::Kind::stat_reply, b, wire::CreateStatReply(b, json)));
  return {};
}

}  // namespace millpond::master
