// For unit tests of rooms above rpc: a Runtime in virtual time whose peers are functions. No sockets, no threads.
#pragma once
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/random.h"
#include "rpc/runtime.h"

namespace millpond::transfer {

struct FakeReply {
  wire::Kind kind = wire::Kind::none;
  ByteVector body;
  ByteVector payload;
  Status failure;                        // not ok: the whole call fails with it
  Duration delay = std::chrono::microseconds(10);
};

struct FakePeer {
  NodeId node_id{};
  NodeEpoch node_epoch{};
  std::vector<int> shared_fds;
  bool down = false;                     // cannot be connected
  // nullopt: never answers.
  std::function<std::optional<FakeReply>(wire::Kind kind, const ByteVector& body, const ByteVector& payload)> serve;
  std::map<wire::Kind, int> calls;       // how many arrived
  int channels = 0;                      // how many were opened
};

class FakeWorld : public rpc::Runtime {
 public:
  FakePeer& peer(const std::string& address) { return peers_[address]; }

  Time now() const override { return now_; }
  uint64_t random() override { return random_.next(); }
  void post(std::function<void()> task) override { at(now_, std::move(task)); }
  std::shared_ptr<void> after(Duration delay, std::function<void()> task) override {
    auto alive = std::make_shared<bool>(true);
    at(now_ + delay, [weak = std::weak_ptr<bool>(alive), task = std::move(task)] {
      if (weak.lock()) task();
    });
    return alive;
  }
  std::shared_ptr<rpc::Channel> channel(rpc::PeerAddress peer) override {
    ++peers_[peer.address].channels;
    return std::make_shared<FakeChannel>(*this, std::move(peer));
  }
  Result<std::string> listen(rpc::ListenOptions options, rpc::Service*) override { return options.address; }
  const rpc::Identity& identity() const override { return identity_; }

  // Runs events until `done` says so; false: nothing is left to happen.
  bool run_until(const std::function<bool()>& done) {
    while (!done()) {
      if (events_.empty()) return false;
      auto first = events_.begin();
      now_ = std::max(now_, first->first.first);
      auto task = std::move(first->second);
      events_.erase(first);
      task();
    }
    return true;
  }
  void run() {
    run_until([] { return false; });
  }
  void pass(Duration time) { now_ = now_ + time; }

 private:
  struct Call {
    rpc::Message request;
    rpc::LandReply land;
    rpc::Done done;
    void end(Result<rpc::Reply> reply) {
      if (done) std::exchange(done, nullptr)(std::move(reply));
    }
  };

  class FakeChannel : public rpc::Channel {
   public:
    FakeChannel(FakeWorld& world, rpc::PeerAddress peer) : world_(world), peer_(std::move(peer)) {}
    ~FakeChannel() override {
      for (auto& weak : calls_)
        if (auto call = weak.lock())
          world_.post([call] { call->end(error(Code::unavailable, "channel closed")); });
    }
    void call(rpc::Message request, Time deadline, rpc::LandReply land, rpc::Done done) override {
      auto call = std::make_shared<Call>(Call{std::move(request), std::move(land), std::move(done)});
      calls_.push_back(call);
      world_.at(deadline, [call] { call->end(error(Code::timed_out, "deadline")); });
      world_.at(world_.now() + std::chrono::microseconds(10), [&world = world_, peer = peer_, call] { world.arrive(peer, call); });
    }
    std::vector<int> shared_fds() const override { return world_.peers_[peer_.address].shared_fds; }

   private:
    FakeWorld& world_;
    rpc::PeerAddress peer_;
    std::vector<std::weak_ptr<Call>> calls_;
  };

  void arrive(const rpc::PeerAddress& to, const std::shared_ptr<Call>& call) {
    auto& peer = peers_[to.address];
    if (!call->done) return;
    if (peer.down || !peer.serve) return call->end(error(Code::unavailable, "{} is down", to.address));
    if (to.node_id.value != 0 && (to.node_id != peer.node_id || to.node_epoch != peer.node_epoch))
      return call->end(error(Code::stale, "another node at {}", to.address));
    ++peer.calls[call->request.kind];
    ByteVector payload;
    for (auto& piece : call->request.payload) payload.insert(payload.end(), piece.begin(), piece.end());
    auto reply = peer.serve(call->request.kind, call->request.body, payload);
    if (!reply) return;
    at(now_ + reply->delay, [call, reply = *std::move(reply)]() mutable {
      if (!call->done) return;
      if (!reply.failure.ok()) return call->end(error(reply.failure));
      if (!reply.payload.empty()) {
        if (!call->land) return call->end(error(Code::corrupt, "unexpected payload"));
        auto landing = call->land(reply.kind, reply.body, reply.payload.size());
        if (!landing) return call->end(error(landing.error()));
        size_t at = 0;
        for (auto& piece : landing->pieces) {
          if (at + piece.size() > reply.payload.size()) return call->end(error(Code::corrupt, "landing larger than the payload"));
          std::memcpy(piece.data(), reply.payload.data() + at, piece.size());
          at += piece.size();
        }
        if (at != reply.payload.size()) return call->end(error(Code::corrupt, "landing smaller than the payload"));
      }
      call->end(rpc::Reply{reply.kind, std::move(reply.body), reply.payload.size()});
    });
  }

  void at(Time when, std::function<void()> task) { events_.emplace(std::pair(when, sequence_++), std::move(task)); }

  Time now_{std::chrono::hours(1)};
  Random random_{1};
  rpc::Identity identity_;
  std::map<std::string, FakePeer> peers_;
  std::map<std::pair<Time, uint64_t>, std::function<void()>> events_;
  uint64_t sequence_ = 0;
};

}  // namespace millpond::transfer
