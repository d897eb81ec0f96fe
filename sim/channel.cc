#include "sim/channel.h"

#include <map>

#include "base/check.h"
#include "base/reached.h"
#include "sim/connection.h"
#include "sim/runtime.h"
#include "sim/serving.h"
#include "wire/frame.h"
#include "wire/limits.h"

namespace millpond::sim {

struct SimChannel::State : public End, public std::enable_shared_from_this<SimChannel::State> {
  struct Call {
    Connection::Outgoing frame;          // until it is handed to the connection
    bool handed_over = false;
    Time deadline;
    rpc::LandReply land;
    rpc::Done done;
    std::shared_ptr<void> timer;
    std::shared_ptr<const void> keep;
  };

  State(SimRuntime& r, rpc::PeerAddress p) : runtime(r), network(r.network()), world(r.world()), peer(std::move(p)) {}

  SimRuntime& runtime;
  Network& network;
  World& world;
  const rpc::PeerAddress peer;
  std::map<uint64_t, Call> calls;
  uint64_t call_last = 0;
  std::shared_ptr<Connection> connection;   // null: none; not `open` yet: Hello is under way
  bool open = false;
  bool connecting = false;
  uint64_t attempt = 0;
  std::shared_ptr<void> connect_timer;
  std::unique_ptr<rpc::HelloClient> hello;
  ByteVector reply_message;
  Status reply_refused;
  bool destroyed = false;

  HostId here() const { return world.host(runtime.process()); }

  // Ends one call. Always called from an event of this process.
  void finish(uint64_t id, Result<rpc::Reply> result) {
    auto found = calls.find(id);
    if (found == calls.end()) return;
    Call call = std::move(found->second);
    calls.erase(found);
    call.timer.reset();
    auto kept = shared_from_this();
    if (connection && open) {
      auto current = connection;         // may close, and with it other calls
      current->stop_landing(Connection::client, id);
      if (call.handed_over) current->abandon(Connection::client, id);
    }
    call.done(std::move(result));
  }

  void fail_all(const Status& why) {
    std::vector<uint64_t> ids;
    for (auto& [id, call] : calls) ids.push_back(id);
    for (auto id : ids) finish(id, error(why));
  }

  void start_connecting() {
    if (connecting || connection) return;
    connecting = true;
    auto n = ++attempt;
    connect_timer = runtime.after(network.options().connect_deadline, [weak = weak_from_this(), n] {
      if (auto self = weak.lock()) self->connect_failed(n, Status(Code::unavailable, "{}: no answer while connecting", self->peer.address));
    });
    auto there = host_of(peer.address);
    if (network.is_cut(here(), there)) return;
    world.after(network.delay(), kWorldProcess, [weak = weak_from_this(), n] {
      if (auto self = weak.lock()) self->knock(n);
    });
  }

  // At the peer's host: the kernel there accepts or refuses.
  void knock(uint64_t n) {
    if (destroyed || n != attempt || !world.alive(runtime.process())) return;
    auto there = host_of(peer.address);
    auto* listener = network.listener(peer.address);
    if (!listener) {
      if (network.is_cut(there, here())) return;
      world.after(network.delay(), runtime.process(), [weak = weak_from_this(), n] {
        if (auto self = weak.lock()) self->connect_failed(n, Status(Code::unavailable, "{}: connection refused", self->peer.address));
      });
      return;
    }
    connection = network.make_connection(runtime.process(), listener->runtime->process());
    connection->attach(Connection::client, weak_from_this());
    hello = std::make_unique<rpc::HelloClient>(runtime.identity(), simulated_nonce(network.random()));
    world.at(world.now(), listener->runtime->process(), [weak = weak_from_this(), n, made = connection, listener = *listener, said = hello->hello()] {
      auto self = weak.lock();
      if (!self || made->closed(Connection::server)) return;
      auto welcome = answer_hello(self->network, listener, said, host_address(self->here()), made);
      if (welcome.end) made->keep(std::move(welcome.end));
      if (self->network.is_cut(host_of(self->peer.address), self->here())) {
        MP_REACHED("sim: hello reply lost");
        return;
      }
      self->world.after(self->network.delay(), self->runtime.process(), [weak, n, made, server = welcome.hello] {
        if (auto self = weak.lock()) self->hello_answered(n, made, *server);
      });
    });
  }

  void hello_answered(uint64_t n, const std::shared_ptr<Connection>& made, const rpc::HelloServer& server) {
    if (n != attempt || made != connection) return;
    Status status = hello->read_reply(server.reply());
    if (status.ok()) status = hello->read_done(rpc::HelloServer::done(server.read_proof(hello->proof())));
    auto who = hello->peer();
    if (status.ok() && peer.node_id.value != 0 && (who.node_id != peer.node_id || who.node_epoch != peer.node_epoch)) {
      MP_REACHED("sim: hello from another life");
      status = Status(Code::stale, "{}: answered as node {:x} epoch {}, expected {:x} epoch {}", peer.address, who.node_id.value,
                      who.node_epoch.value, peer.node_id.value, peer.node_epoch.value);
    }
    if (!status.ok()) return connect_failed(n, status);
    if (made->closed(Connection::client)) return;   // closed() has told everybody
    connecting = false;
    connect_timer.reset();
    open = true;
    made->hello_done(Connection::client);
    for (auto& [id, call] : calls) hand_over(call);
  }

  void connect_failed(uint64_t n, const Status& why) {
    if (n != attempt || !connecting) return;
    connecting = false;
    connect_timer.reset();
    ++attempt;
    drop_connection();
    fail_all(why);
  }

  void drop_connection() {
    open = false;
    if (auto ended = std::exchange(connection, nullptr)) ended->close(Connection::client);
  }

  void hand_over(Call& call) {
    call.handed_over = true;
    connection->send(Connection::client, std::move(call.frame));
  }

  // ---- End ----
  std::optional<rpc::Landing> head(const wire::FrameHeader& header, ByteVector message) override {
    reply_message = std::move(message);
    reply_refused = Status();
    if (!header.reply()) {
      reply_refused = Status(Code::corrupt, "a request where replies come");
      return std::nullopt;
    }
    auto found = calls.find(header.request_id);
    if (found == calls.end() || header.payload_bytes == 0) return std::nullopt;
    if (!found->second.land) {
      reply_refused = Status(Code::corrupt, "a payload of {} bytes that nobody asked for", header.payload_bytes);
      return std::nullopt;
    }
    auto landing = found->second.land(header.kind, reply_message, header.payload_bytes);
    if (!landing) {
      reply_refused = landing.error();
      return std::nullopt;
    }
    MP_CHECK(total_bytes(landing->pieces) == header.payload_bytes, "landing of {} bytes for a payload of {}", total_bytes(landing->pieces), header.payload_bytes);
    return std::move(*landing);
  }

  void whole(const wire::FrameHeader& header, rpc::Landing, bool) override {
    auto message = std::exchange(reply_message, {});
    if (!calls.contains(header.request_id)) return;   // it timed out before
    if (!reply_refused.ok()) return finish(header.request_id, error(reply_refused));
    if (header.kind == wire::Kind::failure) return finish(header.request_id, error(wire::failure_status(message)));
    finish(header.request_id, rpc::Reply{.kind = header.kind, .body = std::move(message), .payload_bytes = header.payload_bytes});
  }

  void closed(const Status& why) override {
    connecting = false;
    connect_timer.reset();
    ++attempt;
    drop_connection();
    fail_all(why);
  }
};

SimChannel::SimChannel(SimRuntime& runtime, rpc::PeerAddress peer) : state_(std::make_shared<State>(runtime, std::move(peer))) {}

SimChannel::~SimChannel() {
  state_->destroyed = true;
  ++state_->attempt;
  state_->connect_timer.reset();
  state_->drop_connection();
  for (auto& [id, call] : state_->calls) {
    call.timer.reset();
    state_->runtime.post([done = std::move(call.done)] { done(error(Code::unavailable, "the channel was closed")); });
  }
  state_->calls.clear();
}

void SimChannel::call(rpc::Message request, Time deadline, rpc::LandReply land, rpc::Done done) {
  auto& state = *state_;
  auto& world = state.world;
  if (!world.alive(state.runtime.process())) return;   // its process has ended: nobody is there to be told
  Status refused;
  if (state.calls.size() >= kCallsInFlightMax) refused = Status(Code::overloaded, "{} calls in flight to {}", state.calls.size(), state.peer.address);
  if (request.body.size() > wire::kMessageBytesMax || total_bytes(request.payload) > wire::kPayloadBytesMax)
    refused = Status(Code::invalid, "a message of {} bytes with {} bytes of payload is too large", request.body.size(), total_bytes(request.payload));
  if (!refused.ok()) return state.runtime.post([done = std::move(done), refused] { done(error(refused)); });

  auto id = ++state.call_last;
  auto& call = state.calls[id];
  call.deadline = deadline;
  call.land = std::move(land);
  call.done = std::move(done);
  call.keep = request.keep;
  call.frame = {.kind = request.kind, .reply = false, .request_id = id, .deadline = state.runtime.to_world(deadline), .message = std::move(request.body),
                .payload = std::move(request.payload), .keep = std::move(request.keep)};
  if (deadline != Time::max())
    call.timer = state.runtime.after(deadline - state.runtime.now(), [weak = std::weak_ptr(state_), id] {
      if (auto self = weak.lock()) {
        MP_REACHED("sim: call timed out");
        self->finish(id, error(Code::timed_out, "{}: no answer by the deadline", self->peer.address));
      }
    });
  if (state.open) {
    state.runtime.post([weak = std::weak_ptr(state_), id] {
      auto self = weak.lock();
      if (!self) return;
      auto found = self->calls.find(id);
      if (found == self->calls.end() || found->second.handed_over) return;
      if (self->open) self->hand_over(found->second);
      else self->start_connecting();
    });
  } else {
    state.start_connecting();
  }
}

}  // namespace millpond::sim
