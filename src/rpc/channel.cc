#include "rpc/channel.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "base/log.h"
#include "base/reached.h"
#include "wire/limits.h"

namespace millpond::rpc {
namespace {
constexpr size_t kFdsMax = 1024;   // over all lives of the peer

bool same_file(int a, int b) {
  struct stat one, other;
  return fstat(a, &one) == 0 && fstat(b, &other) == 0 && one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}
}  // namespace

ChannelState::ChannelState(std::shared_ptr<Core> core, PeerAddress peer)
    : core_(std::move(core)), peer_(std::move(peer)), address_(parse_address(peer_.address)) {}

ChannelState::~ChannelState() { close_fds(); }

void ChannelState::close_fds() {
  Lock lock(fds_mutex_);
  for (int fd : std::exchange(fds_, {})) ::close(fd);
  for (int fd : std::exchange(fds_before_, {})) ::close(fd);
}

std::vector<int> ChannelState::shared_fds() const {
  Lock lock(fds_mutex_);
  return fds_;
}

void ChannelState::call(Message request, Time deadline, LandReply land, Done done) {
  core_->metrics.calls.add();
  auto call = std::make_shared<Call>(Call{std::move(request), deadline, std::move(land), std::move(done), Loop::now()});
  bool room = in_flight_.fetch_add(1) < core_->options.queue_calls_max;
  core_->metrics.calls_in_flight.set(double(core_->calls_in_flight.fetch_add(1) + 1));
  bool posted = core_->loop->post([self = shared_from_this(), call, room] {
    if (!room) {
      MP_REACHED("rpc: too many calls in flight");
      self->count_end(*call, Code::overloaded);
      call->done(error(Code::overloaded, "{} calls to {} are in flight", self->core_->options.queue_calls_max, self->peer_.address));
      return;
    }
    self->begin(call);
  });
  if (!posted) {   // nobody is left to run it later
    count_end(*call, Code::unavailable);
    call->done(error(Code::unavailable, "the runtime has ended"));
  }
}

void ChannelState::count_end(const Call& call, Code code) {
  in_flight_.fetch_sub(1);
  core_->metrics.calls_in_flight.set(double(core_->calls_in_flight.fetch_sub(1) - 1));
  core_->metrics.call_seconds.add(Loop::now() - call.started);
  if (code != Code::ok) core_->metrics.calls_failed[std::min(size_t(code), core_->metrics.calls_failed.size() - 1)]->add();
}

void ChannelState::begin(std::shared_ptr<Call> call) {
  uint64_t id = id_next_++;
  calls_.emplace(id, call);
  Time now = Loop::now();
  if (ended_) return finish(id, error(Code::unavailable, "the channel to {} has ended", peer_.address));
  if (!address_) return finish(id, error(address_.error()));
  if (call->request.body.size() > wire::kMessageBytesMax || total_bytes(call->request.payload) > wire::kPayloadBytesMax)
    return finish(id, error(Code::invalid, "a request of {} and {} bytes; a message may have {}, a payload {}", call->request.body.size(),
                            total_bytes(call->request.payload), wire::kMessageBytesMax, wire::kPayloadBytesMax));
  if (call->deadline <= now) return finish(id, error(Code::timed_out, "the deadline had passed before the call to {}", peer_.address));
  if (phase_ == Phase::idle && !failed_.ok() && now < retry_at_) return finish(id, error(failed_));
  if (call->deadline != Time::max()) call->timer = core_->loop->at(call->deadline, [self = weak_from_this(), id] {
    if (auto channel = self.lock()) channel->expire(id);
  });
  if (phase_ == Phase::open) put(id, *call);
  if (phase_ == Phase::idle) connect();
}

void ChannelState::connect() {
  phase_ = Phase::connecting;
  connector_ = Connector::start(core_->loop, *address_, Loop::now() + core_->options.connect_timeout,
                                [self = shared_from_this()](Result<std::unique_ptr<Watch>> watch) { self->connected(std::move(watch)); });
}

void ChannelState::connected(Result<std::unique_ptr<Watch>> watch) {
  connector_.reset();
  if (!watch) return give_up(std::move(watch).error());
  phase_ = Phase::hello;
  hello_.emplace(core_->options.identity, new_nonce());
  stream_ = std::make_shared<FrameStream>(
      core_->loop, core_->metrics, *std::move(watch),
      FrameStream::Options{.message_bytes_max = wire::kHelloBytesMax, .payloads = false, .receive_fds = address_->local()}, this);
  stream_->start();
  stream_->send({.header = {.kind = wire::Kind::hello}, .message = {.kind = wire::Kind::hello, .body = hello_->hello()}});
  hello_timer_ = core_->loop->at(Loop::now() + core_->options.hello_timeout, [weak = weak_from_this()] {
    auto self = weak.lock();
    if (!self) return;
    MP_REACHED("rpc: a server never finishes Hello");
    self->hello_timer_.reset();
    self->core_->metrics.hello_timed_out.add();
    self->give_up(Status(Code::unavailable, "{} accepts connections but does not answer Hello", self->peer_.address));
  });
}

void ChannelState::hello_frame(const wire::FrameHeader& header, ByteSpan body) {
  Status status;
  if (phase_ == Phase::hello && header.kind == wire::Kind::hello_reply) {
    status = hello_->read_reply(body);
    if (status.ok() && peer_.node_id.value != 0) {
      auto& peer = hello_->peer();
      if (peer.node_id != peer_.node_id || (peer_.node_epoch.value != 0 && peer.node_epoch != peer_.node_epoch))
        status = Status(Code::stale, "at {} answers node {:x} of epoch {}, wanted was {:x} of epoch {}", peer_.address, peer.node_id.value,
                        peer.node_epoch.value, peer_.node_id.value, peer_.node_epoch.value);
    }
    bool ours = status.code() == Code::refused || status.ok();
    if (ours) {   // an empty proof tells the server that we do not believe it
      stream_->send({.header = {.kind = wire::Kind::hello_proof}, .message = {.kind = wire::Kind::hello_proof, .body = hello_->proof()}});
      phase_ = Phase::proof;
    }
    if (status.ok()) return;
  } else if (phase_ == Phase::proof && header.kind == wire::Kind::hello_done) {
    status = hello_->read_done(body);
    if (status.ok()) return opened();
  } else {
    core_->metrics.frames_corrupt.add();
    status = Status(Code::corrupt, "{} sends a {} where Hello was due", peer_.address, wire::name(header.kind));
  }
  core_->metrics.hello_refused_out.add();
  give_up(Status(status.code(), "{}: {}", peer_.address, status.message()));
}

void ChannelState::opened() {
  core_->loop->cancel(*std::exchange(hello_timer_, {}));
  stream_->hello_done(Loop::now(), wire::kMessageBytesMax);
  adopt_fds(stream_->take_received_fds());
  phase_ = Phase::open;
  hello_.reset();
  backoff_ = Duration(0);
  failed_ = Status();
  core_->metrics.connections_out.add();
  core_->metrics.open_out.set(double(++core_->open_out));
  std::vector<uint64_t> ids;
  for (auto& [id, call] : calls_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());   // in the order of the calls
  for (uint64_t id : ids) put(id, *calls_.at(id));
}

void ChannelState::give_up(Status reason) {
  if (hello_timer_) core_->loop->cancel(*std::exchange(hello_timer_, {}));
  if (stream_) {
    if (phase_ == Phase::proof) stream_->close_when_sent(core_->options.hello_timeout);
    else stream_->close();
    stream_.reset();
  }
  phase_ = Phase::idle;
  hello_.reset();
  backoff_ = std::min(std::max(backoff_ * 2, core_->options.backoff_min), core_->options.backoff_max);
  retry_at_ = Loop::now() + backoff_;
  core_->log_refusal(fmt::format("cannot talk to {}", peer_.address), reason);
  failed_ = reason;
  fail_all(reason);
}

void ChannelState::put(uint64_t id, Call& call) {
  call.in_stream = true;
  stream_->send({.header = {.kind = call.request.kind, .request_id = id}, .message = std::move(call.request), .deadline = call.deadline});
}

void ChannelState::expire(uint64_t id) {
  auto found = calls_.find(id);
  if (found == calls_.end()) return;
  found->second->timer.reset();
  auto timed_out = [&] { return error(Code::timed_out, "no answer from {} by the deadline", peer_.address); };
  if (stream_ && landing_id_ == id) {
    MP_REACHED("rpc: a deadline passes while the answer lands");
    stream_->abandon_payload();
    landing_id_ = 0;
  }
  if (found->second->in_stream && stream_) {
    switch (stream_->cancel(id)) {
      case FrameStream::Cancelled::payload_under_way: {
        MP_REACHED("rpc: a deadline passes while a payload is sent");
        core_->metrics.sends_cut.add();
        stream_->close();
        found->second->in_stream = false;
        release(id, timed_out());
        closed(Status(Code::unavailable, "the connection to {} was closed: another call's payload was still being sent at its deadline", peer_.address));
        return;
      }
      case FrameStream::Cancelled::not_there:
      case FrameStream::Cancelled::removed:
      case FrameStream::Cancelled::owned_rest_goes_on: break;
    }
  }
  release(id, timed_out());
}

void ChannelState::finish(uint64_t id, Result<Reply> result) {
  auto found = calls_.find(id);
  if (found == calls_.end()) return;
  if (found->second->in_stream && stream_) {
    MP_REACHED("rpc: an answer comes before its request is sent");
    found->second->answer = std::move(result);   // the stream still reads the request's payload
    return;
  }
  release(id, std::move(result));
}

void ChannelState::release(uint64_t id, Result<Reply> result) {
  auto found = calls_.find(id);
  if (found == calls_.end()) return;
  auto call = std::move(found->second);
  calls_.erase(found);
  if (call->timer) core_->loop->cancel(*call->timer);
  count_end(*call, result ? Code::ok : result.error().code());
  call->done(std::move(result));
}

void ChannelState::fail_all(const Status& reason) {
  std::vector<uint64_t> ids;
  for (auto& [id, call] : calls_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (uint64_t id : ids) {
    auto found = calls_.find(id);
    if (found == calls_.end()) continue;
    if (found->second->answer) release(id, *std::exchange(found->second->answer, {}));
    else release(id, error(reason));
  }
}

std::optional<Landing> ChannelState::payload_begins(const wire::FrameHeader& header, ByteVector& body) {
  auto found = calls_.find(header.request_id);
  if (phase_ != Phase::open || !header.reply() || found == calls_.end() || found->second->answer) {
    core_->metrics.replies_late.add();
    return std::nullopt;
  }
  auto call = found->second;
  Result<Landing> landing;
  if (header.kind == wire::Kind::failure) landing = error(wire::failure_status(body));
  else if (!call->land) landing = error(Code::corrupt, "{} answers with a payload of {} bytes where none was asked for", peer_.address, header.payload_bytes);
  else landing = call->land(header.kind, body, header.payload_bytes);
  if (landing && total_bytes(landing->pieces) != header.payload_bytes)
    landing = error(Code::internal, "an answer of {} bytes was to land in {}", header.payload_bytes, total_bytes(landing->pieces));
  if (!landing) {
    finish(header.request_id, error(std::move(landing).error()));
    return std::nullopt;
  }
  landing_id_ = header.request_id;
  landing_body_ = std::move(body);
  return *std::move(landing);
}

void ChannelState::frame(const wire::FrameHeader& header, ByteVector body, Landing) {
  auto self = shared_from_this();
  if (phase_ != Phase::open) return hello_frame(header, body);
  if (!header.reply()) {
    stream_->close();
    core_->metrics.frames_corrupt.add();
    return closed(Status(Code::corrupt, "{} sends a request ({}) to its client", peer_.address, wire::name(header.kind)));
  }
  landing_id_ = 0;
  auto found = calls_.find(header.request_id);
  if (found == calls_.end() || found->second->answer) return core_->metrics.replies_late.add();
  if (header.kind == wire::Kind::failure) return finish(header.request_id, error(wire::failure_status(body)));
  finish(header.request_id, Reply{.kind = header.kind,
                                  .body = header.payload_bytes ? std::exchange(landing_body_, {}) : std::move(body),
                                  .payload_bytes = header.payload_bytes});
}

void ChannelState::sent(uint64_t request_id) {
  auto found = calls_.find(request_id);
  if (found == calls_.end()) return;
  found->second->in_stream = false;
  if (found->second->answer) release(request_id, *std::exchange(found->second->answer, {}));
}

void ChannelState::closed(Status reason) {
  auto self = shared_from_this();
  if (phase_ != Phase::open) {
    core_->metrics.hello_refused_out.add();
    return give_up(Status(reason.code(), "{} during Hello: {}", peer_.address, reason.message()));
  }
  core_->metrics.open_out.set(double(--core_->open_out));
  stream_.reset();
  landing_id_ = 0;
  phase_ = Phase::idle;
  fail_all(Status(reason.code(), "{}: {}", peer_.address, reason.message()));
}

void ChannelState::end() {
  if (ended_) return;
  ended_ = true;
  auto self = shared_from_this();
  if (connector_) connector_->stop();
  connector_.reset();
  if (hello_timer_) core_->loop->cancel(*std::exchange(hello_timer_, {}));
  if (stream_) stream_->close();
  stream_.reset();
  if (phase_ == Phase::open) core_->metrics.open_out.set(double(--core_->open_out));
  phase_ = Phase::idle;
  fail_all(Status(Code::unavailable, "the channel to {} has ended", peer_.address));
  close_fds();
  core_->parts.erase(self);
}

void ChannelState::check_stall(Time before) {
  if (stream_) stream_->check_stall(before);
}

void ChannelState::adopt_fds(std::vector<int> fds) {
  if (fds.empty()) return;
  Lock lock(fds_mutex_);
  if (fds.size() == fds_.size() && std::equal(fds.begin(), fds.end(), fds_.begin(), same_file)) {
    for (int fd : fds) ::close(fd);   // the same memory again after a lost connection
    return;
  }
  if (fds_before_.size() + fds_.size() + fds.size() > kFdsMax) {
    log::warn("rpc: {} restarted so often that its {} shared descriptors are let go; make a new channel", peer_.address, fds_before_.size());
    for (int fd : fds_before_) ::close(fd);
    fds_before_.clear();
  }
  fds_before_.insert(fds_before_.end(), fds_.begin(), fds_.end());
  fds_ = std::move(fds);
}

}  // namespace millpond::rpc
