// For this room's tests: a master reduced to what protocol.md says about a node's stream and its removals.
#pragma once
#include <map>
#include <memory>
#include <set>

#include "node/aligned.h"
#include "node/removals.h"
#include "node/test_world.h"

namespace millpond::node {

class TestMaster : public rpc::Service {
 public:
  struct Replica {
    uint64_t root = 0, length = 0;
    uint32_t round = 0;
    bool operator==(const Replica& o) const { return root == o.root && length == o.length; }
  };
  struct Member {
    uint64_t epoch = 0, acked = 0, first = 0, removal_last = 0;
    uint32_t round = 0;
    bool complete = false;
    std::vector<uint8_t> answers;
    std::string address;
    std::shared_ptr<rpc::Channel> channel;
  };

  TestMaster(World& world, uint64_t term, std::string address = "127.0.0.1:7700")
      : world_(world), term_(term), runtime_(world, {.role = uint8_t(wire::Role::master), .master_term = MasterTerm(term)}) {
    (void)runtime_.listen({.address = std::move(address)}, this);
  }

  ~TestMaster() override {
    std::erase_if(world_.services, [this](auto& entry) { return entry.second == this; });
  }

  std::map<BlockId, std::map<uint64_t, Replica>> directory;
  std::map<uint64_t, Member> members;
  std::vector<Removal> log;
  bool reach_back = true;
  uint64_t joins = 0, advertises = 0, leaves = 0, heartbeats = 0, empty_batches = 0;
  bool ignore_advertise = false;

  std::map<BlockId, Replica> of(uint64_t node) const {
    std::map<BlockId, Replica> held;
    for (auto& [id, nodes] : directory) {
      if (auto found = nodes.find(node); found != nodes.end()) held[id] = found->second;
    }
    return held;
  }

  // Numbers the removal and tells the nodes in `tell`.
  void remove(const BlockId& id, const std::set<uint64_t>& tell) {
    log.push_back({.id = id, .number = (term_ << 20) + log.size() + 1});
    directory.erase(id);
    for (uint64_t node : tell) send_removals(node);
  }
  void send_removals(uint64_t node) {
    Member& member = members.at(node);
    std::vector<wire::Removal> records;
    for (auto& r : log) {
      if (r.number > member.removal_last) records.push_back(reinterpret_cast<const wire::Removal&>(r));
    }
    wire::Builder b;
    auto vector = wire::structs(b, std::span<const wire::Removal>(records));
    if (!member.channel) member.channel = runtime_.channel({.address = member.address});
    member.channel->call({.kind = wire::Kind::apply_removals, .body = wire::finish(b, wire::CreateApplyRemovals(b, term_, member.removal_last, vector))},
                         world_.now + std::chrono::seconds(1), nullptr, [this, node](Result<rpc::Reply> reply) {
                           if (!reply) return;
                           auto answer = wire::parse<wire::ApplyRemovalsReply>(reply->body);
                           members.at(node).removal_last = (*answer)->removal_last();
                         });
  }
  rpc::Runtime& runtime() { return runtime_; }

  void serve(rpc::Request request, std::shared_ptr<rpc::Responder> responder) override {
    wire::Builder b;
    switch (request.kind) {
      case wire::Kind::join: return join(**wire::parse<wire::Join>(request.body), *responder);
      case wire::Kind::advertise: return advertise(**wire::parse<wire::Advertise>(request.body), responder);
      case wire::Kind::heartbeat: {
        ++heartbeats;
        auto& beat = **wire::parse<wire::Heartbeat>(request.body);
        auto found = members.find(beat.node_id());
        bool known = found != members.end() && found->second.epoch == beat.epoch();
        if (known && !log.empty() && beat.removal_last() < log.back().number) {
          found->second.removal_last = beat.removal_last();
          send_removals(beat.node_id());
        }
        return responder->answer({.kind = wire::Kind::heartbeat_reply, .body = wire::finish(b, wire::CreateHeartbeatReply(b, uint8_t(known ? Code::ok : Code::stale), term_))});
      }
      case wire::Kind::leave:
        ++leaves;
        return responder->answer({.kind = wire::Kind::leave_reply, .body = wire::finish(b, wire::CreateLeaveReply(b, 0))});
      default: return responder->fail(Status(Code::invalid, "no"));
    }
  }

 private:
  void join(const wire::Join& join, rpc::Responder& responder) {
    ++joins;
    Member& member = members[join.node_id()];
    if (member.epoch != join.epoch()) {
      for (auto& [id, nodes] : directory) nodes.erase(join.node_id());
    }
    uint32_t round = member.round + 1;
    member = {.epoch = join.epoch(), .removal_last = log.empty() ? join.removal_last() : log.back().number, .round = round, .address = std::string(wire::text_of(join.address()))};
    std::vector<wire::Removal> records;
    for (auto& r : log) {
      if (r.number > join.removal_last()) records.push_back(reinterpret_cast<const wire::Removal&>(r));
    }
    wire::Builder b;
    auto vector = wire::structs(b, std::span<const wire::Removal>(records));
    auto reply = wire::CreateJoinReply(b, 0, 0, term_, 0, vector, reach_back, 0, 0, /*heartbeat_interval_ms=*/1000, round);
    responder.answer({.kind = wire::Kind::join_reply, .body = wire::finish(b, reply)});
  }

  void advertise(const wire::Advertise& batch, std::shared_ptr<rpc::Responder> responder) {
    ++advertises;
    if (ignore_advertise) return;
    wire::Builder b;
    auto answer = [&](Code code, uint64_t acked, std::vector<uint8_t> answers) {
      auto vector = b.CreateVector(answers);
      responder->answer({.kind = wire::Kind::advertise_reply, .body = wire::finish(b, wire::CreateAdvertiseReply(b, uint8_t(code), acked, vector))});
    };
    auto found = members.find(batch.node_id());
    if (found == members.end() || found->second.epoch != batch.epoch() || found->second.round != batch.inventory_round() || batch.term() != term_) return answer(Code::stale, 0, {});
    Member& member = found->second;
    if (batch.sequence_first() > member.acked + 1) return answer(Code::stale, member.acked, {});
    if (batch.sequence_first() <= member.acked) return answer(Code::ok, member.acked, batch.sequence_first() == member.first ? member.answers : std::vector<uint8_t>());
    member.first = batch.sequence_first();
    member.answers.clear();
    for (auto& item : aligned(batch.items())) member.answers.push_back(uint8_t(apply(batch.node_id(), member, item, batch.removals_seen())));
    empty_batches += member.answers.empty();
    member.acked = batch.sequence_first() + member.answers.size() - 1;
    if (batch.inventory_complete()) {
      member.complete = true;
      for (auto& [id, nodes] : directory) {
        auto replica = nodes.find(batch.node_id());
        if (replica != nodes.end() && replica->second.round != member.round) nodes.erase(replica);
      }
    }
    answer(Code::ok, member.acked, member.answers);
  }

  wire::AdvertAnswer apply(uint64_t node, Member& member, const wire::Advert& item, uint64_t removals_seen) {
    BlockId id = wire::id_of(item.id());
    auto& replicas = directory[id];
    if (item.kind() == uint8_t(wire::AdvertKind::evict) || item.kind() == uint8_t(wire::AdvertKind::drop)) {
      replicas.erase(node);
      return wire::AdvertAnswer::noted;
    }
    for (auto& r : log) {
      if (r.id == id && r.number > removals_seen) return wire::AdvertAnswer::removed;
    }
    Replica replica{item.root(), item.length(), member.round};
    bool others = false;
    for (auto& [other, theirs] : replicas) {
      if (other == node) continue;
      others = true;
      if (!(theirs == replica)) return wire::AdvertAnswer::refused;
    }
    replicas[node] = replica;
    return others ? wire::AdvertAnswer::replica : wire::AdvertAnswer::first;
  }

  World& world_;
  uint64_t term_;
  TestRuntime runtime_;
};

}  // namespace millpond::node
