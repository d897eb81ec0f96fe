#include "master/peers.h"

#include "base/log.h"
#include "base/reached.h"
#include "master/core.h"
#include "wire/message.h"

namespace millpond::master {
namespace {
rpc::Message touch_message(uint64_t term, std::span<const TouchedRun> runs) {
  wire::Builder b(256 + runs.size() * sizeof(TouchedRun));
  auto list = b.CreateVectorOfStructs(reinterpret_cast<const wire::TouchRun*>(runs.data()), runs.size());
  return {.kind = wire::Kind::touch, .body = wire::finish(b, wire::CreateTouch(b, term, list, true))};
}
}  // namespace

Peers::Peer* Peers::find(NodeIndex index) {
  auto found = peers_.find(index);
  return found == peers_.end() ? nullptr : &found->second;
}

void Peers::joined(Core& core, NodeIndex index, uint64_t removal_last) {
  const Member* member = core.membership.at(index);
  Peer& peer = peers_[index];
  // A new channel each time: the address may be another, and a breaker that opened on the old one does not matter any more.
  peer.channel = core.runtime.channel({member->facts.address, member->facts.id, member->facts.epoch});
  peer.pushing = peer.touching = peer.probing = false;     // calls of the old channel end unheard
  peer.position = removal_last;
  peer.moved = core.now();
  // Who is out of the log's reach must first have applied the answer to its join: a push would only tell it to join again.
  peer.push_not_before = core.now() + (core.removals.reaches(removal_last) ? kPushRetry : kStuckAfter);
}

void Peers::gone(NodeIndex index) { peers_.erase(index); }

uint64_t Peers::position(NodeIndex index) const {
  auto found = peers_.find(index);
  return found == peers_.end() ? 0 : found->second.position;
}

bool Peers::catches_up(const Core& core, NodeIndex index) const {
  auto found = peers_.find(index);
  return found != peers_.end() && found->second.position < core.removals.last() && core.now() - found->second.moved < kStuckAfter;
}

void Peers::stands_at(Core& core, NodeIndex index, uint64_t removal_last) {
  Peer* peer = find(index);
  if (!peer || removal_last < peer->position) return;      // a word that was overtaken
  if (removal_last > peer->position || removal_last >= core.removals.last()) peer->moved = core.now();
  peer->position = removal_last;
  peer->push_not_before = core.now();
  push(core, index, *peer);
}

void Peers::push_all(Core& core) {
  for (auto& [index, peer] : peers_) push(core, index, peer);
}

void Peers::push(Core& core, NodeIndex index, Peer& peer) {
  if (peer.pushing || peer.position >= core.removals.last() || core.now() < peer.push_not_before) return;
  const Member* member = core.membership.at(index);
  if (!member || member->must_rejoin || member->standing == Standing::dead) return;
  if (!core.removals.reaches(peer.position)) {
    MP_REACHED("a node fell behind the removal log");
    core.membership.require_rejoin(index);
    return;
  }
  auto records = core.removals.since(peer.position, kRemovalsPerPush);
  wire::Builder b(256 + records.size() * sizeof(RemovalRecord));
  auto list = b.CreateVectorOfStructs(reinterpret_cast<const wire::Removal*>(records.data()), records.size());
  std::vector<wire::NamespaceGeneration> generations;
  for (auto& record : records)
    if (record.kind == RemovalKind::namespace_wiped) generations.emplace_back(record.id.namespace_id, record.generation);
  auto raised = b.CreateVectorOfStructs(generations.data(), generations.size());
  rpc::Message message{.kind = wire::Kind::apply_removals,
                       .body = wire::finish(b, wire::CreateApplyRemovals(b, core.term(), peer.position, list, raised))};
  peer.pushing = true;
  // The channel tells this life of the peer from a later one under the same index.
  peer.channel->call(std::move(message), core.now() + kPushDeadline, nullptr,
                     core.later([index, channel = std::weak_ptr(peer.channel)](Core& core, Result<rpc::Reply> reply) {
                       core.peers.push_answered(core, index, channel, std::move(reply));
                     }));
}

void Peers::push_answered(Core& core, NodeIndex index, const std::weak_ptr<rpc::Channel>& channel, Result<rpc::Reply> reply) {
  Peer* peer = find(index);
  if (!peer || channel.lock() != peer->channel) return;
  peer->pushing = false;
  auto retry_later = [&](const Status& why) {
    MP_REACHED("a push of removals failed");
    core.counters.pushes_failed.add();
    peer->push_not_before = core.now() + kPushRetry;       // or the next heartbeat
    log::debug("{} did not take removals: {}", core.name_of(index), why.text());
  };
  if (!reply) return retry_later(reply.error());
  auto parsed = wire::parse<wire::ApplyRemovalsReply>(reply->body);
  if (reply->kind != wire::Kind::apply_removals_reply || !parsed) return retry_later(Status(Code::corrupt, "answered {}", wire::name(reply->kind)));
  uint64_t stands = (*parsed)->removal_last();
  if ((*parsed)->code() != uint8_t(Code::ok) || !core.removals.plausible(stands))
    return retry_later(Status(Code::stale, "answered code {}, stands at removal {}", (*parsed)->code(), stands));
  bool moved = stands != peer->position;                   // lower: there was a gap, it is sent the rest from there
  peer->position = stands;
  if (moved) peer->moved = core.now();
  if (!moved) return retry_later(Status(Code::internal, "stays at removal {}", stands));
  core.confirmed(index, stands);
  if (Peer* still = find(index)) push(core, index, *still);
}

void Peers::touch(Core& core, NodeIndex index, const BlockId& last, uint32_t length) {
  Peer* peer = find(index);
  if (!peer) return;
  peer->touches.add(last, length);
  core.counters.touches_dropped.add(peer->touches.dropped() - peer->dropped_counted);
  peer->dropped_counted = peer->touches.dropped();
  arm_touches(core);
}

void Peers::arm_touches(Core& core) {
  if (core.touch_timer) return;
  core.touch_timer = core.runtime.after(core.options.touch_interval, core.later([](Core& core) {
    core.touch_timer = nullptr;
    core.peers.flush_touches(core);
  }));
}

void Peers::flush_touches(Core& core) {
  for (auto& [index, peer] : peers_) {
    if (peer.touching || peer.touches.empty()) continue;
    auto runs = peer.touches.take(kRunsPerTouch);
    core.counters.touches.add(runs.size());
    peer.touching = true;
    peer.channel->call(touch_message(core.term(), runs), core.now() + kPushDeadline, nullptr,
                       core.later([index = index, channel = std::weak_ptr(peer.channel)](Core& core, Result<rpc::Reply>) {
                         Peer* peer = core.peers.find(index);   // a touch that failed is not said again: recency is advice
                         if (!peer || channel.lock() != peer->channel) return;
                         peer->touching = false;
                         if (!peer->touches.empty()) core.peers.arm_touches(core);
                       }));
  }
}

void Peers::probe(Core& core, NodeIndex index) {
  Peer* peer = find(index);
  if (!peer || peer->probing) return;
  peer->probing = true;
  peer->channel->call(touch_message(core.term(), {}), core.now() + kPushDeadline, nullptr,
                      core.later([index, channel = std::weak_ptr(peer->channel)](Core& core, Result<rpc::Reply> reply) {
                        Peer* peer = core.peers.find(index);
                        if (!peer || channel.lock() != peer->channel) return;
                        peer->probing = false;
                        if (reply || reply.error().code() != Code::unavailable) return;
                        MP_REACHED("a reported node is down for us too");
                        Changes changes;
                        core.membership.connection_lost(index, changes);
                        core.carry_out(changes);
                      }));
}

}  // namespace millpond::master
