#include "rpc/server_connection.h"

#include <atomic>

#include "base/log.h"
#include "base/reached.h"
#include "wire/limits.h"

namespace millpond::rpc {
namespace {

class AsioResponder : public Responder {
 public:
  AsioResponder(std::weak_ptr<Loop> loop, std::weak_ptr<ServerConnection> connection, uint64_t request_id, Time deadline)
      : loop_(std::move(loop)), connection_(std::move(connection)), request_id_(request_id), deadline_(deadline) {}
  ~AsioResponder() override {
    if (!answered_) fail(Status(Code::internal, "the service dropped the request unanswered"));
  }
  void answer(Message reply) override {
    if (answered_.exchange(true)) {
      log::error("rpc: a service answers twice ({})", wire::name(reply.kind));
      return;
    }
    auto loop = loop_.lock();
    if (!loop) return;
    auto message = std::make_shared<Message>(std::move(reply));
    loop->post([connection = connection_, id = request_id_, deadline = deadline_, message] {
      if (auto there = connection.lock()) there->answer(id, deadline, std::move(*message));
    });
  }

 private:
  std::weak_ptr<Loop> loop_;
  std::weak_ptr<ServerConnection> connection_;
  uint64_t request_id_;
  Time deadline_;
  std::atomic<bool> answered_{false};
};

}  // namespace

ServerConnection::ServerConnection(std::shared_ptr<Core> core, std::shared_ptr<Listener> listener, Service* service, std::string peer_name,
                                   bool local, std::vector<int> shared_fds)
    : core_(std::move(core)), listener_(std::move(listener)), service_(service), shared_fds_(std::move(shared_fds)) {
  caller_.connection = ConnectionId(core_->connection_next++);
  caller_.same_host = local;
  caller_.address = std::move(peer_name);
}

void ServerConnection::start(std::unique_ptr<Watch> watch) {
  ++listener_->connections;
  stream_ = std::make_shared<FrameStream>(core_->loop, core_->metrics, std::move(watch),
                                          FrameStream::Options{.message_bytes_max = wire::kHelloBytesMax, .payloads = false}, this);
  hello_.emplace(core_->options.identity, new_nonce());
  hello_timer_ = core_->loop->at(Loop::now() + core_->options.hello_timeout, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    MP_REACHED("rpc: a client never finishes Hello");
    self->hello_timer_.reset();
    self->core_->metrics.hello_timed_out.add();
    self->stream_->close();
    self->leave();
  });
  stream_->start();
}

// ---- Hello ----

void ServerConnection::hello_frame(const wire::FrameHeader& header, ByteSpan body) {
  if (phase_ == Phase::hello && header.kind == wire::Kind::hello) {
    Status status = hello_->read_hello(body);
    if (status.code() != Code::corrupt)
      stream_->send({.header = {.kind = wire::Kind::hello_reply}, .message = {.kind = wire::Kind::hello_reply, .body = hello_->reply()}});
    if (!status.ok()) return refuse(status);
    phase_ = Phase::proof;
    return;
  }
  if (phase_ == Phase::proof && header.kind == wire::Kind::hello_proof) {
    Status status = hello_->read_proof(body);
    stream_->send({.header = {.kind = wire::Kind::hello_done},
                   .message = {.kind = wire::Kind::hello_done, .body = HelloServer::done(status)},
                   .fds = status.ok() ? shared_fds_ : std::vector<int>()});
    return status.ok() ? opened() : refuse(status);
  }
  core_->metrics.frames_corrupt.add();
  refuse(Status(Code::corrupt, "a {} where Hello was due", wire::name(header.kind)));
}

void ServerConnection::refuse(const Status& reason) {
  core_->metrics.hello_refused_in.add();
  core_->log_refusal(fmt::format("{}: refused {}", listener_->address(), caller_.address), reason);
  stream_->close_when_sent(core_->options.hello_timeout);
  leave();
}

void ServerConnection::opened() {
  core_->loop->cancel(*std::exchange(hello_timer_, {}));
  auto& peer = hello_->peer();
  caller_.role = peer.role;
  caller_.node_id = peer.node_id;
  caller_.node_epoch = peer.node_epoch;
  caller_.tenant = peer.tenant;
  stream_->hello_done(Loop::now(), wire::kMessageBytesMax);
  phase_ = Phase::open;
  hello_.reset();
  core_->metrics.connections_in.add();
  core_->metrics.open_in.set(double(++core_->open_in));
}

// ---- Requests ----

Request ServerConnection::request_of(const wire::FrameHeader& header, ByteVector body) {
  Time now = Loop::now();
  uint64_t waited_ms = transit_.waited_ms(header.since_hello_ms, stream_->since_hello_ms(now));
  Duration left = std::chrono::microseconds(header.deadline_us) - std::chrono::milliseconds(std::min<uint64_t>(waited_ms, UINT32_MAX));
  return {.caller = caller_, .kind = header.kind, .body = std::move(body), .payload_bytes = header.payload_bytes, .deadline = now + left};
}

// Nobody waits for it any more: it is answered (a caller with another idea of time hears at once), not served.
bool ServerConnection::expired(const wire::FrameHeader& header, const Request& request) {
  Time now = Loop::now();
  if (now < request.deadline) return false;
  MP_REACHED("rpc: a request expired before it was served");
  core_->metrics.expired.add();
  answer(header.request_id, Time::max(), {.kind = wire::Kind::failure, .body = wire::failure_body(Status(
      Code::timed_out, "the {} reached us {} us after its deadline", wire::name(header.kind), microseconds(now - request.deadline)))});
  return true;
}

void ServerConnection::count_request(int64_t change) {
  in_flight_ += size_t(change);
  core_->requests_in_flight += uint64_t(change);
  core_->metrics.requests_in_flight.set(double(core_->requests_in_flight));
  stream_->pause(in_flight_ >= core_->options.requests_in_flight_max);
}

std::optional<Landing> ServerConnection::payload_begins(const wire::FrameHeader& header, ByteVector& body) {
  if (header.reply()) return std::nullopt;
  core_->metrics.requests.add();
  count_request(1);
  Request request = request_of(header, std::move(body));
  if (expired(header, request)) return std::nullopt;
  Result<Landing> landing = service_->land(request);
  if (landing && total_bytes(landing->pieces) != header.payload_bytes)
    landing = error(Code::internal, "a {} of {} bytes was to land in {}", wire::name(header.kind), header.payload_bytes, total_bytes(landing->pieces));
  if (!landing) {
    answer(header.request_id, request.deadline, {.kind = wire::Kind::failure, .body = wire::failure_body(landing.error())});
    return std::nullopt;
  }
  landing_request_ = std::move(request);
  return *std::move(landing);
}

void ServerConnection::frame(const wire::FrameHeader& header, ByteVector body, Landing landing) {
  auto self = shared_from_this();
  if (phase_ != Phase::open) return hello_frame(header, body);
  if (header.reply()) {
    core_->metrics.frames_corrupt.add();
    stream_->close();
    return closed(Status(Code::corrupt, "a reply ({}) from a client", wire::name(header.kind)));
  }
  Request request;
  if (header.payload_bytes > 0) {
    request = std::exchange(landing_request_, {});
    request.landing = std::move(landing);
  } else {
    core_->metrics.requests.add();
    count_request(1);
    request = request_of(header, std::move(body));
  }
  if (expired(header, request)) return;
  auto responder = std::make_shared<AsioResponder>(core_->loop, weak_from_this(), header.request_id, request.deadline);
  service_->serve(std::move(request), std::move(responder));
}

void ServerConnection::answer(uint64_t request_id, Time deadline, Message reply) {
  if (phase_ != Phase::open || !stream_) return;
  if (reply.body.size() > wire::kMessageBytesMax || total_bytes(reply.payload) > wire::kPayloadBytesMax) {
    log::error("rpc: a {} of {} and {} bytes is too long to send", wire::name(reply.kind), reply.body.size(), total_bytes(reply.payload));
    reply = {.kind = wire::Kind::failure, .body = wire::failure_body(Status(Code::internal, "the answer is too long to send"))};
  }
  if (!reply.payload.empty() && Loop::now() >= deadline) {
    MP_REACHED("rpc: an answer after its deadline");
    core_->metrics.replies_expired.add();
    reply = {.kind = wire::Kind::failure, .body = wire::failure_body(Status(Code::timed_out, "the answer was ready after the deadline"))};
  }
  wire::FrameHeader header{.kind = reply.kind, .flags = wire::kFlagReply, .request_id = request_id};
  stream_->send({.header = header, .message = std::move(reply)});
}

void ServerConnection::sent(uint64_t) {
  if (phase_ == Phase::open && in_flight_ > 0) count_request(-1);
}

// ---- The end ----

void ServerConnection::closed(Status reason) {
  auto self = shared_from_this();
  if (phase_ == Phase::open) {
    if (reason.code() == Code::corrupt) core_->log_refusal(fmt::format("{}: closed {}", listener_->address(), caller_.address), reason);
  } else if (phase_ != Phase::gone) {
    core_->metrics.hello_refused_in.add();
    core_->log_refusal(fmt::format("{}: {} left during Hello", listener_->address(), caller_.address), reason);
  }
  leave();
}

void ServerConnection::leave() {
  if (phase_ == Phase::gone) return;
  auto self = shared_from_this();
  bool was_open = phase_ == Phase::open;
  phase_ = Phase::gone;
  if (hello_timer_) core_->loop->cancel(*std::exchange(hello_timer_, {}));
  landing_request_ = {};
  core_->requests_in_flight -= in_flight_;
  core_->metrics.requests_in_flight.set(double(core_->requests_in_flight));
  in_flight_ = 0;
  --listener_->connections;
  core_->parts.erase(self);
  if (!was_open) return;
  core_->metrics.open_in.set(double(--core_->open_in));
  service_->closed(caller_.connection);
}

void ServerConnection::end() {
  auto self = shared_from_this();
  stream_->close();
  leave();
}

void ServerConnection::check_stall(Time before) {
  auto self = shared_from_this();
  stream_->check_stall(before);
}

}  // namespace millpond::rpc
