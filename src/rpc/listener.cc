#include "rpc/listener.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "base/reached.h"
#include "rpc/connector.h"
#include "rpc/server_connection.h"

namespace millpond::rpc {
namespace {

constexpr int kBacklog = 1024;

// Every directory that is missing, for this user alone.
Status make_directories(const std::filesystem::path& directory) {
  if (directory.empty() || std::filesystem::exists(directory)) return Status();
  MP_OK(make_directories(directory.parent_path()));
  if (mkdir(directory.c_str(), 0700) && errno != EEXIST)
    return Status(Code::invalid, "cannot make the directory {}: {}", directory.string(), std::strerror(errno));
  return Status();
}

bool somebody_answers(const Endpoint& endpoint) {
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  int failed = connect(fd, reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size);
  // Anything else (a full queue, another user's socket, no descriptor left to ask with) does not prove it dead.
  bool dead = fd >= 0 && failed && (errno == ECONNREFUSED || errno == ENOENT);
  if (fd >= 0) ::close(fd);
  return !dead;
}

}  // namespace

Listener::Listener(std::shared_ptr<Core> core, ListenOptions options, Service* service)
    : core_(std::move(core)), options_(std::move(options)), service_(service) {}

Listener::~Listener() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::shared_ptr<Listener>> Listener::open(std::shared_ptr<Core> core, ListenOptions options, Service* service) {
  MP_TRY(Address address, parse_address(options.address));
  auto listener = std::shared_ptr<Listener>(new Listener(std::move(core), std::move(options), service));
  MP_OK(address.local() ? listener->open_unix(address) : listener->open_tcp(address));
  return listener;
}

Status Listener::open_tcp(const Address& address) {
  if (!options_.shared_fds.empty()) return Status(Code::invalid, "cannot listen on {}: descriptors are shared over Unix sockets only", address.text());
  auto endpoints = resolve(address, true);
  if (!endpoints) return Status(Code::invalid, "cannot listen on {}: {}", address.text(), endpoints.error().message());
  Endpoint endpoint = endpoints->front();
  if (!endpoint.loopback() && core_->options.identity.cluster_key.empty())
    return Status(Code::invalid, "cannot listen on {}: without a cluster key only loopback is served, or anyone on the network could read and "
                  "write the cache; set cluster_key (openssl rand -hex 32), the same in every process", address.text());
  fd_ = socket(endpoint.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return Status(Code::invalid, "cannot listen on {}: {}", address.text(), std::strerror(errno));
  int on = 1, off = 0;
  setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);   // a restarted daemon gets its port back at once
  if (endpoint.family() == AF_INET6) setsockopt(fd_, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(fd_, reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size) || ::listen(fd_, kBacklog)) {
    if (errno == EADDRINUSE) return Status(Code::invalid, "cannot listen on {}: the port is in use by another process", address.text());
    if (errno == EADDRNOTAVAIL) return Status(Code::invalid, "cannot listen on {}: no interface of this host has that address", address.text());
    return Status(Code::invalid, "cannot listen on {}: {}", address.text(), std::strerror(errno));
  }
  Address real = address;
  real.port = local_of(fd_).port();
  address_ = real.text();
  return Status();
}

Status Listener::open_unix(const Address& address) {
  Endpoint endpoint = unix_endpoint(address.path);
  MP_OK(make_directories(std::filesystem::path(address.path).parent_path()));
  struct stat found;
  if (lstat(address.path.c_str(), &found) == 0) {
    if (!S_ISSOCK(found.st_mode)) return Status(Code::invalid, "cannot listen on {}: a file that is no socket is in the way", address.text());
    if (somebody_answers(endpoint)) return Status(Code::invalid, "cannot listen on {}: another process listens there", address.text());
    MP_REACHED("rpc: a stale socket file");
    unlink(address.path.c_str());
  }
  fd_ = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  // Nobody can connect between bind and listen, so nobody sees the wider mode.
  if (fd_ < 0 || bind(fd_, reinterpret_cast<const sockaddr*>(&endpoint.address), endpoint.size) || chmod(address.path.c_str(), 0600) ||
      ::listen(fd_, kBacklog))
    return Status(Code::invalid, "cannot listen on {}: {}", address.text(), std::strerror(errno));
  if (lstat(address.path.c_str(), &found) == 0) path_ = address.path, path_device_ = found.st_dev, path_inode_ = found.st_ino;
  address_ = address.text();
  return Status();
}

void Listener::start() {
  watch_ = core_->loop->watch(std::exchange(fd_, -1));
  wait();
}

void Listener::wait() {
  watch_->wait_read([self = shared_from_this()] { self->accept_ready(); });
}

void Listener::accept_ready() {
  while (watch_) {
    int fd = accept4(watch_->fd(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      accepted(fd);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) break;
    MP_REACHED("rpc: accept fails");   // out of descriptors: the peer waits in the queue until some are free
    core_->log_refusal(address_, Status(Code::overloaded, "cannot take a connection: {}", std::strerror(errno)));
    core_->loop->at(Loop::now() + std::chrono::milliseconds(100), [self = shared_from_this()] { self->accept_ready(); });
    return;
  }
  if (watch_) wait();
}

void Listener::accepted(int fd) {
  auto watch = core_->loop->watch(fd);
  if (connections >= core_->options.connections_max) {
    MP_REACHED("rpc: listener full");
    core_->metrics.connections_turned_away.add();
    core_->log_refusal(address_, Status(Code::overloaded, "{} connections are open, one more was turned away", connections));
    return;
  }
  Endpoint peer = peer_of(fd);
  std::string name = peer.text();
  bool local = path_.size() > 0;
  if (local) {
    ucred who{};
    socklen_t size = sizeof who;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &size) || (who.uid != geteuid() && who.uid != 0)) {
      MP_REACHED("rpc: another user at the Unix socket");
      core_->metrics.hello_refused_in.add();
      core_->log_refusal(address_, Status(Code::refused, "user {} may not connect, only user {} and root", who.uid, geteuid()));
      return;
    }
    name = fmt::format("pid {}", who.pid);
  }
  tune(fd, peer);
  auto connection = std::make_shared<ServerConnection>(core_, shared_from_this(), service_, std::move(name), local,
                                                       local ? options_.shared_fds : std::vector<int>());
  core_->parts.insert(connection);
  connection->start(std::move(watch));
}

void Listener::end() {
  watch_.reset();
  struct stat found;   // the file may be another process's by now
  if (!path_.empty() && lstat(path_.c_str(), &found) == 0 && found.st_dev == path_device_ && found.st_ino == path_inode_) unlink(path_.c_str());
}

}  // namespace millpond::rpc
