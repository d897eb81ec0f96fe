#include "rpc/connector.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace millpond::rpc {
namespace {
void set(int fd, int level, int option, int value) { setsockopt(fd, level, option, &value, sizeof value); }
}  // namespace

void tune(int fd, const Endpoint& endpoint) {
  if (endpoint.family() == AF_UNIX) return;
  set(fd, IPPROTO_TCP, TCP_NODELAY, 1);
  // A host that lost power says nothing more. Without these its connections stay for a quarter of an hour.
  set(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
  set(fd, IPPROTO_TCP, TCP_KEEPIDLE, 15);
  set(fd, IPPROTO_TCP, TCP_KEEPINTVL, 5);
  set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
  set(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 20'000);
}

Endpoint peer_of(int fd) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.address;
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.size)) endpoint.size = 0;
  return endpoint;
}

Endpoint local_of(int fd) {
  Endpoint endpoint;
  endpoint.size = sizeof endpoint.address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&endpoint.address), &endpoint.size)) endpoint.size = 0;
  return endpoint;
}

Connector::Connector(std::shared_ptr<Loop> loop, const Address& address, Done done)
    : loop_(std::move(loop)), address_(address), done_(std::move(done)) {}

std::shared_ptr<Connector> Connector::start(std::shared_ptr<Loop> loop, const Address& address, Time deadline, Done done) {
  auto connector = std::shared_ptr<Connector>(new Connector(std::move(loop), address, std::move(done)));
  connector->begin(deadline);
  return connector;
}

void Connector::begin(Time deadline) {
  timer_ = loop_->at(deadline, [self = shared_from_this()] {
    self->finish(error(Code::unavailable, "cannot connect to {}: no answer in time", self->address_.text()));
  });
  if (auto known = resolve(address_, false)) {
    endpoints_ = *std::move(known);
    loop_->post([self = shared_from_this()] { self->try_next(); });
    return;
  }
  loop_->resolve(address_, [self = shared_from_this()](Result<std::vector<Endpoint>> found) {
    if (!found) return self->finish(error(std::move(found).error()));
    self->endpoints_ = *std::move(found);
    self->try_next();
  });
}

void Connector::try_next() {
  while (done_) {
    watch_.reset();
    if (next_ == endpoints_.size()) return finish(error(Code::unavailable, "cannot connect to {}: {}", address_.text(), reason_));
    auto& endpoint = endpoints_[next_++];
    int fd = socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
      reason_ = std::strerror(errno);
      continue;
    }
    watch_ = loop_->watch(fd);
    if (connect(fd, reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size) == 0) return ready();
    if (errno != EINPROGRESS) {   // EAGAIN on a Unix socket: its queue is full, waiting would not tell us
      reason_ = std::strerror(errno);
      continue;
    }
    watch_->wait_write([self = shared_from_this()] { self->ready(); });
    return;
  }
}

void Connector::ready() {
  if (!done_) return;
  int failure = 0;
  socklen_t size = sizeof failure;
  getsockopt(watch_->fd(), SOL_SOCKET, SO_ERROR, &failure, &size);
  if (failure) {
    reason_ = std::strerror(failure);
    return try_next();
  }
  tune(watch_->fd(), endpoints_[next_ - 1]);
  finish(std::move(watch_));
}

void Connector::finish(Result<std::unique_ptr<Watch>> result) {
  if (!done_) return;
  auto self = shared_from_this();
  loop_->cancel(timer_);
  watch_.reset();
  std::exchange(done_, {})(std::move(result));
}

void Connector::stop() {
  loop_->cancel(timer_);
  watch_.reset();
  done_ = {};
}

}  // namespace millpond::rpc
