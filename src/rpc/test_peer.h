// For tests of this room: a service made of lambdas, a call that is waited for, and a peer that speaks frames by hand
// on a blocking socket, to say what no Millpond process would.
#pragma once
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <future>
#include <memory>
#include <string>

#include "rpc/address.h"
#include "rpc/asio_runtime.h"
#include "rpc/hello.h"
#include "wire/frame.h"

namespace millpond::rpc {

using namespace std::chrono_literals;
constexpr Duration kLong = 20s;          // no test waits for it unless something is broken

inline ByteVector bytes_of(std::string_view text) {
  auto span = as_bytes(text);
  return ByteVector(span.begin(), span.end());
}

struct TestService : Service {
  std::function<Result<Landing>(const Request&)> on_land;
  std::function<void(Request, std::shared_ptr<Responder>)> on_serve;
  std::function<void(ConnectionId)> on_closed;
  Result<Landing> land(const Request& request) override { return on_land ? on_land(request) : Service::land(request); }
  void serve(Request request, std::shared_ptr<Responder> responder) override {
    if (on_serve) return on_serve(std::move(request), std::move(responder));
    responder->answer({.kind = wire::Kind::stat_reply, .body = std::move(request.body)});   // echo
  }
  void closed(ConnectionId id) override {
    if (on_closed) on_closed(id);
  }
};

struct Daemon {
  explicit Daemon(AsioRuntime::Options options = {}) {
    auto made = AsioRuntime::create(std::move(options), metrics);
    EXPECT_TRUE(made);
    runtime = *std::move(made);
  }
  std::string listen(std::string address = "127.0.0.1:0", std::vector<int> fds = {}) {
    auto real = runtime->listen({.address = std::move(address), .shared_fds = std::move(fds)}, &service);
    EXPECT_TRUE(real) << real.error().text();
    return real ? *real : "";
  }
  double metric(const std::string& name) { return metrics.values()[name]; }
  TestService service;
  Metrics metrics;
  std::unique_ptr<AsioRuntime> runtime;
};

inline std::future<Result<Reply>> start_call(Runtime& runtime, Channel& channel, Message request, Duration limit = kLong, LandReply land = {}) {
  auto promise = std::make_shared<std::promise<Result<Reply>>>();
  channel.call(std::move(request), runtime.now() + limit, std::move(land), [promise](Result<Reply> result) { promise->set_value(std::move(result)); });
  return promise->get_future();
}

inline Result<Reply> call(Runtime& runtime, Channel& channel, Message request, Duration limit = kLong, LandReply land = {}) {
  return start_call(runtime, channel, std::move(request), limit, std::move(land)).get();
}

inline Message text_request(std::string_view text) { return {.kind = wire::Kind::stat, .body = bytes_of(text)}; }

// Runs on the loop and waits for it: everything posted before has run when this returns.
inline void on_loop(Runtime& runtime, std::function<void()> task) {
  std::promise<void> done;
  runtime.post([&] {
    task();
    done.set_value();
  });
  done.get_future().wait();
}
inline void settle(Runtime& runtime) {
  on_loop(runtime, [] {});
}

class RawPeer {
 public:
  explicit RawPeer(int fd) : fd_(fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);   // fails on a Unix socket, which has no delay
  }
  ~RawPeer() { hang_up(); }
  RawPeer(RawPeer&& other) : fd_(std::exchange(other.fd_, -1)) {}
  void hang_up() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  int fd() const { return fd_; }

  static RawPeer dial(const std::string& address) {
    Endpoint endpoint = resolve(*parse_address(address), false)->front();
    int fd = socket(endpoint.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&endpoint.address), endpoint.size), 0) << std::strerror(errno);
    return RawPeer(fd);
  }
  // Dials and says Hello.
  static RawPeer client(const std::string& address, Identity identity = {}) {
    RawPeer peer = dial(address);
    HelloClient hello(identity, new_nonce());
    peer.send_frame({.kind = wire::Kind::hello}, hello.hello());
    EXPECT_TRUE(hello.read_reply(peer.read_frame().body).ok());
    peer.send_frame({.kind = wire::Kind::hello_proof}, hello.proof());
    EXPECT_TRUE(hello.read_done(peer.read_frame().body).ok());
    return peer;
  }
  void serve_hello(Identity identity = {}) {
    HelloServer hello(identity, new_nonce());
    EXPECT_TRUE(hello.read_hello(read_frame().body).ok());
    send_frame({.kind = wire::Kind::hello_reply}, hello.reply());
    Status status = hello.read_proof(read_frame().body);
    send_frame({.kind = wire::Kind::hello_done}, HelloServer::done(status));
  }

  void send_bytes(ByteSpan bytes) {
    while (!bytes.empty()) {
      ssize_t put = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (put <= 0) return;   // the other end has closed: the test asks for that elsewhere
      bytes = bytes.subspan(size_t(put));
    }
  }
  void send_frame(wire::FrameHeader header, ByteSpan body, ByteSpan payload = {}) {
    if (!payload.empty()) header.payload_bytes = payload.size();
    send_bytes(wire::encode_header(header, body));
    send_bytes(body);
    send_bytes(payload);
  }
  bool read_bytes(MutableByteSpan bytes) {   // false: closed
    while (!bytes.empty()) {
      ssize_t got = recv(fd_, bytes.data(), bytes.size(), 0);
      if (got <= 0) return false;
      bytes = bytes.subspan(size_t(got));
    }
    return true;
  }
  struct Frame {
    wire::FrameHeader header;
    ByteVector body, payload;
  };
  Frame read_frame() {
    Frame frame;
    wire::FrameHeaderBytes bytes;
    if (!read_bytes(bytes)) return frame;
    auto header = wire::decode_header(bytes);
    EXPECT_TRUE(header);
    if (!header) return frame;
    frame.header = *header;
    frame.body.resize(header->message_bytes);
    frame.payload.resize(header->payload_bytes);
    read_bytes(frame.body);
    EXPECT_TRUE(wire::check_message(bytes, frame.body).ok());
    read_bytes(frame.payload);
    return frame;
  }
  bool closed_by_peer() {   // waits until it is; false: bytes came instead
    std::byte one[1];
    ssize_t got = recv(fd_, one, 1, 0);
    return got <= 0;
  }

 private:
  int fd_;
};

class RawServer {
 public:
  RawServer() {
    fd_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(fd_, 16), 0);
    socklen_t size = sizeof address;
    getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
  }
  ~RawServer() { ::close(fd_); }
  std::string address() const { return fmt::format("127.0.0.1:{}", port_); }
  RawPeer accept() { return RawPeer(::accept(fd_, nullptr, nullptr)); }

 private:
  int fd_;
  uint16_t port_;
};

}  // namespace millpond::rpc
