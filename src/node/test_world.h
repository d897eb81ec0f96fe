// For this room's tests: a Runtime in virtual time that carries messages between Services in one process, and can lose,
// repeat and delay them.
#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <queue>
#include <set>
#include <string>

#include "base/random.h"
#include "rpc/runtime.h"
#include "wire/message.h"

namespace millpond::node {

class World {
 public:
  explicit World(uint64_t seed = 1) : random(seed) {}

  struct Faults {
    double lose_request = 0, lose_reply = 0, repeat = 0;
    Duration delay_max{0};               // beyond the constant 50 us
    bool refuse = false;                 // connections fail at once
    bool silent = false;                 // nothing arrives
  };
  Faults faults;                         // of calls to addresses in `faulty`
  std::set<std::string> faulty;
  Random random;

  Time now{std::chrono::seconds(100)};
  uint64_t tasks = 0;

  void at(Time when, std::function<void()> task) { queue_.push({when, order_++, std::make_shared<std::function<void()>>(std::move(task))}); }
  // Runs everything up to `until`.
  void run_until(Time until) {
    while (!queue_.empty() && queue_.top().when <= until) {
      Entry entry = queue_.top();
      queue_.pop();
      now = std::max(now, entry.when);
      ++tasks;
      (*entry.task)();
    }
    now = std::max(now, until);
  }
  void run_for(Duration duration) { run_until(now + duration); }
  template <typename Condition>
  bool run_until_true(Condition condition, Duration limit = std::chrono::seconds(30)) {
    Time end = now + limit;
    while (!condition()) {
      if (queue_.empty() || queue_.top().when > end) return false;
      run_until(queue_.top().when);
    }
    return true;
  }

  std::map<std::string, rpc::Service*> services;
  std::map<std::string, std::vector<int>> fds;
  uint64_t connections = 0;
  int ports = 20000;

 private:
  struct Entry {
    Time when;
    uint64_t order;
    std::shared_ptr<std::function<void()>> task;
    bool operator<(const Entry& other) const { return std::tie(when, order) > std::tie(other.when, other.order); }
  };
  std::priority_queue<Entry> queue_;
  uint64_t order_ = 0;
};

class TestResponder : public rpc::Responder {
 public:
  TestResponder(std::function<void(rpc::Message)> to) : to_(std::move(to)) {}
  void answer(rpc::Message reply) override {
    if (auto to = std::exchange(to_, nullptr)) to(std::move(reply));
  }

 private:
  std::function<void(rpc::Message)> to_;
};

class TestChannel : public rpc::Channel, public std::enable_shared_from_this<TestChannel> {
 public:
  TestChannel(World& world, rpc::Identity who, std::string address) : world_(world), who_(std::move(who)), address_(std::move(address)) { connect(); }
  ~TestChannel() override { disconnect(); }

  void connect() { connection_ = ConnectionId(++world_.connections); }
  // Calls under way end with unavailable; the other end hears that the connection closed.
  void disconnect() {
    for (auto& call : std::exchange(open_, {})) world_.at(world_.now, [call] { finish(call, error(Code::unavailable, "connection lost")); });
    world_.at(world_.now, [&world = world_, address = address_, connection = connection_] {
      auto service = world.services.find(address);
      if (service != world.services.end()) service->second->closed(connection);
    });
  }

  void call(rpc::Message request, Time deadline, rpc::LandReply land, rpc::Done done) override {
    auto call = std::make_shared<Call>(Call{std::move(request), deadline, std::move(land), std::move(done)});
    open_.insert(call);
    auto weak = weak_from_this();
    world_.at(deadline, [call, weak] {
      if (auto self = weak.lock()) self->open_.erase(call);
      finish(call, error(Code::timed_out, "deadline"));
    });
    bool faulty = world_.faulty.contains(address_);
    auto& faults = world_.faults;
    if (!world_.services.contains(address_) || (faulty && faults.refuse)) {
      world_.at(world_.now, [call] { finish(call, error(Code::unavailable, "nobody listens")); });
      return;
    }
    if (faulty && faults.silent) return;
    if (faulty && world_.random.chance(faults.lose_request)) return;
    int copies = faulty && world_.random.chance(faults.repeat) ? 2 : 1;
    for (int i = 0; i < copies; ++i) {
      // In order on one connection, as a socket is.
      last_ = std::max(last_, world_.now + delay(faulty));
      world_.at(last_, [call, weak] {
        if (auto self = weak.lock()) self->deliver(call);
      });
    }
  }
  std::vector<int> shared_fds() const override {
    auto found = world_.fds.find(address_);
    return found == world_.fds.end() ? std::vector<int>() : found->second;
  }

 private:
  struct Call {
    rpc::Message request;
    Time deadline;
    rpc::LandReply land;
    rpc::Done done;
  };
  static void finish(const std::shared_ptr<Call>& call, Result<rpc::Reply> reply) {
    if (auto done = std::exchange(call->done, nullptr)) done(std::move(reply));
  }
  Duration delay(bool faulty) {
    Duration extra = faulty && world_.faults.delay_max > Duration(0) ? Duration(world_.random.below(uint64_t(world_.faults.delay_max.count()))) : Duration(0);
    return std::chrono::microseconds(50) + extra;
  }
  static void copy(const std::vector<ByteSpan>& from, const std::vector<MutableByteSpan>& to) {
    ByteVector flat;
    for (auto piece : from) flat.insert(flat.end(), piece.begin(), piece.end());
    size_t at = 0;
    for (auto piece : to) {
      std::copy_n(flat.begin() + long(at), piece.size(), piece.begin());
      at += piece.size();
    }
  }
  void deliver(const std::shared_ptr<Call>& call) {
    auto service = world_.services.find(address_);
    if (service == world_.services.end()) return;
    rpc::Request request{.caller = {.connection = connection_, .role = who_.role, .node_id = who_.node_id, .node_epoch = who_.node_epoch, .tenant = who_.tenant,
                                    .same_host = address_.starts_with("unix:"), .address = "test"},
                         .kind = call->request.kind, .body = call->request.body, .payload_bytes = total_bytes(call->request.payload), .deadline = call->deadline};
    auto weak = weak_from_this();
    auto responder = std::make_shared<TestResponder>([weak, call](rpc::Message reply) {
      if (auto self = weak.lock()) self->replied(call, std::move(reply));
    });
    if (request.payload_bytes > 0) {
      auto landing = service->second->land(request);
      if (!landing) return responder->fail(landing.error());
      request.landing = *std::move(landing);
      if (total_bytes(request.landing.pieces) != request.payload_bytes) return responder->fail(Status(Code::internal, "landing of another size"));
      copy(call->request.payload, request.landing.pieces);
    }
    service->second->serve(std::move(request), responder);
  }
  void replied(const std::shared_ptr<Call>& call, rpc::Message message) {
    bool faulty = world_.faulty.contains(address_);
    if (faulty && (world_.faults.silent || world_.random.chance(world_.faults.lose_reply))) return;
    auto shared = std::make_shared<rpc::Message>(std::move(message));
    auto weak = weak_from_this();
    world_.at(world_.now + delay(faulty), [weak, call, shared] {
      if (auto self = weak.lock()) self->open_.erase(call);
      if (shared->kind == wire::Kind::failure) {
        auto failure = wire::parse<wire::Failure>(shared->body);
        return finish(call, error(Status(Code((*failure)->code()), std::string(wire::text_of((*failure)->reason())))));
      }
      rpc::Reply reply{shared->kind, shared->body, total_bytes(shared->payload)};
      if (reply.payload_bytes > 0 && call->done) {
        auto landing = call->land ? call->land(reply.kind, reply.body, reply.payload_bytes) : Result<rpc::Landing>(error(Code::corrupt, "payload"));
        if (!landing) return finish(call, error(landing.error()));
        copy(shared->payload, landing->pieces);
      }
      finish(call, std::move(reply));
    });
  }

  World& world_;
  rpc::Identity who_;
  std::string address_;
  ConnectionId connection_;
  std::set<std::shared_ptr<Call>> open_;
  Time last_{};
};

class TestRuntime : public rpc::Runtime {
 public:
  TestRuntime(World& world, rpc::Identity identity) : world_(world), identity_(std::move(identity)) {}
  Time now() const override { return world_.now; }
  uint64_t random() override { return world_.random.next(); }
  void post(std::function<void()> task) override { world_.at(world_.now, std::move(task)); }
  std::shared_ptr<void> after(Duration delay, std::function<void()> task) override {
    auto handle = std::make_shared<int>();
    world_.at(world_.now + delay, [weak = std::weak_ptr<int>(handle), task = std::move(task)] {
      if (weak.lock()) task();
    });
    return handle;
  }
  std::shared_ptr<rpc::Channel> channel(rpc::PeerAddress peer) override {
    auto channel = std::make_shared<TestChannel>(world_, identity_, peer.address);
    channels.push_back(channel);
    return channel;
  }
  Result<std::string> listen(rpc::ListenOptions options, rpc::Service* service) override {
    std::string address = options.address.ends_with(":0") ? "127.0.0.1:" + std::to_string(world_.ports++) : options.address;
    world_.services[address] = service;
    world_.fds[address] = options.shared_fds;
    return address;
  }
  const rpc::Identity& identity() const override { return identity_; }
  std::vector<std::weak_ptr<TestChannel>> channels;

 private:
  World& world_;
  rpc::Identity identity_;
};

}  // namespace millpond::node
