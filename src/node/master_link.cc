#include "node/master_link.h"

#include <algorithm>

#include "base/log.h"
#include "base/reached.h"
#include "node/aligned.h"
#include "node/shared.h"
#include "transfer/connect.h"
#include "wire/message.h"

namespace millpond::node {
namespace {

static_assert(sizeof(Removal) == sizeof(wire::Removal));
static_assert(int(AdvertKind::drop) == int(wire::AdvertKind::drop) && int(AdvertAnswer::noted) == int(wire::AdvertAnswer::noted));

template <typename Table>
Result<const Table*> answer_of(const Result<rpc::Reply>& reply, wire::Kind kind) {
  if (!reply) return error(reply.error());
  if (reply->kind != kind) return error(Code::corrupt, "the master answered {} where {} was due", wire::name(reply->kind), wire::name(kind));
  return wire::parse<Table>(reply->body);
}

std::span<const wire::Removal> as_wire(std::span<const Removal> records) {
  return {reinterpret_cast<const wire::Removal*>(records.data()), records.size()};
}

struct Share {   // what the master's placement wants to know
  uint64_t capacity, used, free, victim_age_ms, blocks;
};
Share share_of(const Shared& shared) {
  tier::DramUsage usage = shared.tier->usage();
  return {usage.capacity.count, usage.capacity.count - usage.free.count, usage.free.count,
          uint64_t(std::max<int64_t>(0, milliseconds(shared.tier->victim_age(shared.runtime.now())))), usage.blocks};
}

// A join carries the node's removals and brings the master's: give it longer than a batch. Stores do not wait for it
// beyond master_deadline.
Duration join_deadline(Duration master_deadline) { return 5 * master_deadline; }

}  // namespace

MasterLink::MasterLink(Shared& shared)
    : shared_(shared),
      advertiser_({.batch_max = shared.options.advertise_batch_max, .master_deadline = shared.options.master_deadline, .join_retry = shared.options.join_retry},
                  *shared.tier),
      removals_(shared.options.removals_kept),
      control_(shared.runtime.channel({.address = shared.options.master})),
      beats_(shared.runtime.channel({.address = shared.options.master})) {}

void MasterLink::pump() {
  if (shared_.closed || pumping_) return;
  pumping_ = true;
  Time now = shared_.runtime.now();
  while (auto send = advertiser_.next(now, removals_.last())) {
    if (send->batch) {
      send_batch(send->call, *send->batch);
    } else {
      heartbeat_.stop();
      send_join(send->call);
    }
  }
  if (heartbeat_.due(now)) send_heartbeat();
  publish();
  for (auto done = advertiser_.take_done(); !done.empty(); done = advertiser_.take_done()) {
    for (auto& one : done) one.done(std::move(one.outcomes));
  }
  arm();
  pumping_ = false;
}

void MasterLink::arm() {
  Time wake = std::min(advertiser_.wake_at(), heartbeat_.wake_at());
  if (wake == armed_at_) return;
  armed_at_ = wake;
  timer_.reset();
  if (wake == Time::max()) return;
  Duration delay = std::max(Duration(0), wake - shared_.runtime.now());
  timer_ = shared_.runtime.after(delay, [weak = shared_.weak_from_this()] {
    auto shared = weak.lock();
    if (!shared || shared->closed) return;
    shared->link->armed_at_ = Time::max();
    shared->link->pump();
  });
}

void MasterLink::wait(std::vector<uint64_t> events, Time until, Advertiser::Done done) {
  advertiser_.wait(std::move(events), until, std::move(done), shared_.runtime.now());
  pump();
}

void MasterLink::send_join(uint64_t call) {
  auto& identity = shared_.runtime.identity();
  Share share = share_of(shared_);
  std::vector<Removal> tail = removals_.tail();
  std::vector<wire::NamespaceGeneration> generations;
  for (auto [space, generation] : shared_.generations.all()) generations.emplace_back(space, generation);
  wire::Builder builder;
  auto name = builder.CreateString(shared_.name);
  auto address = builder.CreateString(shared_.advertised);
  auto socket = builder.CreateString(shared_.socket_path);
  auto tail_vector = wire::structs(builder, as_wire(tail));
  auto generations_vector = wire::structs(builder, std::span<const wire::NamespaceGeneration>(generations));
  auto join = wire::CreateJoin(builder, identity.node_id.value, identity.node_epoch.value, name, address, socket, transfer::this_host_id(), share.capacity,
                               share.used, share.free, share.victim_age_ms, milliseconds(shared_.runtime.now() - shared_.started), share.blocks,
                               removals_.last(), tail_vector, generations_vector);
  Time deadline = shared_.runtime.now() + join_deadline(shared_.options.master_deadline);
  control_->call({.kind = wire::Kind::join, .body = wire::finish(builder, join)}, deadline, nullptr,
                 [weak = shared_.weak_from_this(), call](Result<rpc::Reply> reply) {
                   auto shared = weak.lock();
                   if (!shared || shared->closed) return;
                   shared->link->join_answered(call, reply);
                   shared->link->pump();
                 });
}

void MasterLink::join_answered(uint64_t call, const Result<rpc::Reply>& reply) {
  Time now = shared_.runtime.now();
  auto answer = answer_of<wire::JoinReply>(reply, wire::Kind::join_reply);
  if (!answer) {
    log::debug("node: no join: {}", answer.error().text());
    return advertiser_.call_failed(call, answer.error().code(), now);
  }
  const wire::JoinReply& join = **answer;
  if (Code(join.code()) != Code::ok) log::warn("node: the master at {} does not let this node join: {}", shared_.options.master, wire::text_of(join.reason()));
  if (!advertiser_.join_answered(call, Code(join.code()), join.term(), join.inventory_round(), now)) return;

  // Before the inventory: what was removed while we were away must not be told as ours.
  for (auto& g : aligned(join.generations())) shared_.generations.raise(NamespaceId(g.namespace_id()), g.generation());
  auto records = aligned<Removal>(join.removals());
  if (join.removals_reach_back()) {
    carry_out(removals_.apply(removals_.last(), records));
  } else {
    MP_REACHED("node: removals do not reach back");
    auto namespaces = aligned<uint32_t>(join.drop_namespaces());
    drop_namespaces(namespaces);
    carry_out(removals_.restart(records));
  }
  heartbeat_.start(std::chrono::milliseconds(join.heartbeat_interval_ms()), now);
  log::info("node {}: joined the master at {} (term {}) with {} blocks, removals up to {}", shared_.name, shared_.options.master, join.term(),
            shared_.tier->usage().blocks, removals_.last());
}

void MasterLink::send_batch(uint64_t call, const Batch& batch) {
  auto& identity = shared_.runtime.identity();
  std::vector<wire::Advert> items;
  items.reserve(batch.items.size());
  for (auto& item : batch.items) {
    items.emplace_back(wire::id_of(item.id), item.root, uint32_t(item.length), uint8_t(item.kind), /*tier=*/0, uint16_t(item.reason));
  }
  wire::Builder builder(items.size() * sizeof(wire::Advert) + 256);
  auto vector = wire::structs(builder, std::span<const wire::Advert>(items));
  auto advertise = wire::CreateAdvertise(builder, identity.node_id.value, identity.node_epoch.value, batch.term, batch.sequence_first, vector,
                                         batch.removals_seen, batch.round, batch.inventory_complete);
  control_->call({.kind = wire::Kind::advertise, .body = wire::finish(builder, advertise)}, shared_.runtime.now() + shared_.options.master_deadline, nullptr,
                 [weak = shared_.weak_from_this(), call](Result<rpc::Reply> reply) {
                   auto shared = weak.lock();
                   if (!shared || shared->closed) return;
                   Advertiser& advertiser = shared->link->advertiser_;
                   Time now = shared->runtime.now();
                   auto answer = answer_of<wire::AdvertiseReply>(reply, wire::Kind::advertise_reply);
                   if (answer) {
                     advertiser.batch_answered(call, Code((*answer)->code()), (*answer)->acked(), wire::span_of((*answer)->answers()), now);
                   } else {
                     advertiser.call_failed(call, answer.error().code(), now);
                   }
                   shared->link->pump();
                 });
}

void MasterLink::send_heartbeat() {
  auto& identity = shared_.runtime.identity();
  Share share = share_of(shared_);
  wire::Builder builder;
  auto beat = wire::CreateHeartbeat(builder, identity.node_id.value, identity.node_epoch.value, share.used, share.free, share.victim_age_ms, removals_.last(), share.blocks);
  Time now = shared_.runtime.now();
  heartbeat_.sent(now);
  beats_->call({.kind = wire::Kind::heartbeat, .body = wire::finish(builder, beat)}, now + shared_.options.master_deadline, nullptr,
               [weak = shared_.weak_from_this(), joins = advertiser_.joins()](Result<rpc::Reply> reply) {
                 auto shared = weak.lock();
                 if (!shared || shared->closed) return;
                 MasterLink& link = *shared->link;
                 Time now = shared->runtime.now();
                 link.heartbeat_.ended();
                 auto answer = answer_of<wire::HeartbeatReply>(reply, wire::Kind::heartbeat_reply);
                 if (!answer) {
                   answer.error().code() == Code::stale ? link.advertiser_.rejoin(now) : link.advertiser_.missed(now);
                 } else if (link.advertiser_.accepts_term((*answer)->term(), now)) {
                   link.advertiser_.heard(now);
                   // An answer to a beat from before the last join says nothing about this one.
                   if (Code((*answer)->code()) == Code::stale && joins == link.advertiser_.joins()) {
                     MP_REACHED("node: heartbeat stale");
                     link.advertiser_.rejoin(now);
                   }
                 }
                 link.pump();
               });
}

Result<uint64_t> MasterLink::apply_removals(uint64_t term, uint64_t after, std::span<const Removal> records,
                                            std::span<const std::pair<uint32_t, uint32_t>> generations) {
  if (!accepts_term(term)) {
    return error(Code::stale, "removals of a master of term {}, but this node has seen term {}", term, advertiser_.term());
  }
  for (auto [space, generation] : generations) shared_.generations.raise(NamespaceId(space), generation);
  if (after > removals_.last()) shared_.counters.removal_gaps.add();
  carry_out(removals_.apply(after, records));
  pump();
  return removals_.last();
}

bool MasterLink::accepts_term(uint64_t term) {
  return advertiser_.accepts_term(term, shared_.runtime.now());
}

void MasterLink::carry_out(std::span<const Removal> records) {
  for (auto& record : records) {
    if (record.wipes()) {
      shared_.generations.raise(NamespaceId(record.id.namespace_id), record.generation);
    } else {
      shared_.tier->drop(record.id, tier::DropReason::removed);
    }
  }
  shared_.counters.removals_applied.add(records.size());
}

void MasterLink::drop_namespaces(std::span<const uint32_t> namespaces) {
  uint64_t dropped = shared_.tier->drop_namespaces(namespaces, tier::DropReason::removed);
  log::warn("node {}: no log of removals reaches back to number {}: dropped {} blocks that might have been removed", shared_.name, removals_.last(), dropped);
}

void MasterLink::publish() {
  auto& counts = advertiser_.counts();
  auto& counters = shared_.counters;
  counters.joins.add(advertiser_.joins() - joins_published_);
  counters.resyncs.add(counts.resyncs - published_.resyncs);
  counters.batches_resent.add(counts.resent - published_.resent);
  counters.advertise_refused.add(counts.refused - published_.refused);
  counters.advertise_removed.add(counts.removed - published_.removed);
  counters.stores_pending.add(counts.pending - published_.pending);
  published_ = counts;
  joins_published_ = advertiser_.joins();
  bool away = advertiser_.master_away();
  if (away != away_said_) {
    away_said_ = away;
    if (away) {
      log::warn("node {}: the master at {} does not answer; stores go on and become visible when it is back", shared_.name, shared_.options.master);
    } else {
      log::info("node {}: the master at {} answers again", shared_.name, shared_.options.master);
    }
  }
  shared_.joined = advertiser_.state() == Advertiser::State::joined;
  shared_.inventory_complete = advertiser_.inventory_complete();
  shared_.master_away = away;
  shared_.answered = advertiser_.answered();
  shared_.removal_last = removals_.last();
  shared_.term = advertiser_.term();
}

void MasterLink::close(Time deadline, std::function<void()> left) {
  timer_.reset();
  heartbeat_.stop();
  beats_.reset();
  advertiser_.end_all_waits();
  publish();
  for (auto& one : advertiser_.take_done()) one.done(std::move(one.outcomes));
  auto control = std::move(control_);
  if (advertiser_.state() != Advertiser::State::joined) {
    left();
    return;
  }
  auto& identity = shared_.runtime.identity();
  wire::Builder builder;
  auto leave = wire::CreateLeave(builder, identity.node_id.value, identity.node_epoch.value);
  rpc::Channel& channel = *control;
  // The call keeps its channel and lets go of it when it has ended, not from within.
  channel.call({.kind = wire::Kind::leave, .body = wire::finish(builder, leave)}, deadline, nullptr,
               [control = std::move(control), left = std::move(left), &runtime = shared_.runtime](Result<rpc::Reply>) mutable {
                 left();
                 runtime.post([control = std::move(control)] {});
               });
}

}  // namespace millpond::node
