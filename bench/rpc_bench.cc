// How fast are calls, and payloads beside a plain socket? One process, loopback; every rate is the median of five runs,
// plain and ours in turn.
//   rpc_bench [seconds per run]
#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <thread>

#include "rpc/asio_runtime.h"

using namespace millpond;
using namespace millpond::rpc;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;
double run_seconds = 1;
constexpr size_t kBlock = 1 << 20;

struct Echo : Service {
  ByteVector block = ByteVector(kBlock, std::byte(1));
  Result<Landing> land(const Request&) override { return Landing{.pieces = {block}}; }
  void serve(Request request, std::shared_ptr<Responder> responder) override {
    Message reply{.kind = wire::Kind::stat_reply};
    if (request.kind == wire::Kind::read) reply.payload = {block};
    responder->answer(std::move(reply));
  }
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Calls per second with `depth` in flight: each answer makes the next call, from the loop.
double rate(Runtime& runtime, Channel& channel, int depth, std::function<Message()> request, LandReply land = {}) {
  std::atomic<uint64_t> calls{0};
  std::atomic<int> flying{depth};
  std::atomic<bool> stop{false};
  std::promise<void> landed;
  std::function<void()> next = [&] {
    channel.call(request(), runtime.now() + 10s, land, [&](Result<Reply> reply) {
      if (!reply) fmt::print("call failed: {}\n", reply.error().text());
      ++calls;
      if (!stop) return next();
      if (--flying == 0) landed.set_value();
    });
  };
  auto start = Clock::now();
  for (int i = 0; i < depth; ++i) next();
  std::this_thread::sleep_for(std::chrono::duration<double>(run_seconds));
  stop = true;
  landed.get_future().wait();
  return double(calls) / std::chrono::duration<double>(Clock::now() - start).count();
}

// A caller's thread that waits for each answer, as a client does.
double latency_us(Runtime& runtime, Channel& channel, std::function<Message()> request) {
  uint64_t calls = 0;
  auto start = Clock::now();
  while (Clock::now() - start < std::chrono::duration<double>(run_seconds)) {
    std::promise<void> done;
    channel.call(request(), runtime.now() + 10s, {}, [&](Result<Reply>) { done.set_value(); });
    done.get_future().wait();
    ++calls;
  }
  return 1e6 * std::chrono::duration<double>(Clock::now() - start).count() / double(calls);
}

// One byte there, one block of 1 MiB back, over blocking sockets: GB/s.
double plain() {
  int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) || listen(listener, 1)) return 0;
  getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size);
  std::thread server([&] {
    int fd = accept(listener, nullptr, nullptr), on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ByteVector block(kBlock, std::byte(1));
    std::byte one;
    while (recv(fd, &one, 1, 0) == 1)
      for (size_t sent = 0; sent < kBlock;) sent += size_t(std::max<ssize_t>(send(fd, block.data() + sent, kBlock - sent, MSG_NOSIGNAL), 0));
    close(fd);
  });
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  if (connect(fd, reinterpret_cast<sockaddr*>(&address), size)) return 0;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ByteVector block(kBlock);
  std::byte one{};
  constexpr int kDepth = 4;
  for (int i = 0; i < kDepth; ++i) send(fd, &one, 1, 0);
  uint64_t blocks = 0;
  auto start = Clock::now();
  while (Clock::now() - start < std::chrono::duration<double>(run_seconds)) {
    recv(fd, block.data(), kBlock, MSG_WAITALL);
    send(fd, &one, 1, 0);
    ++blocks;
  }
  double rate = double(blocks) * kBlock / std::chrono::duration<double>(Clock::now() - start).count() / 1e9;
  for (int i = 0; i < kDepth; ++i) recv(fd, block.data(), kBlock, MSG_WAITALL);
  close(fd);
  server.join();
  close(listener);
  return rate;
}

}  // namespace

int main(int count, char** words) {
  if (count > 1) run_seconds = std::atof(words[1]);
  Metrics metrics;
  Echo echo;
  auto server = *AsioRuntime::create({.thread_name = "server"}, metrics), client = *AsioRuntime::create({.thread_name = "client"}, metrics);
  std::string path = fmt::format("unix:/tmp/rpc_bench.{}.sock", getpid());
  for (std::string address : {*server->listen({.address = "127.0.0.1:0"}, &echo), *server->listen({.address = path}, &echo)}) {
    auto channel = client->channel({.address = address});
    auto small = [] { return Message{.kind = wire::Kind::stat, .body = ByteVector(4096)}; };
    auto read = [] { return Message{.kind = wire::Kind::read}; };
    auto store = [&] { return Message{.kind = wire::Kind::store, .payload = {echo.block}}; };
    ByteVector landing(32 * kBlock);
    size_t slot = 0;
    auto whole = [&](wire::Kind, ByteSpan, uint64_t) -> Result<Landing> {
      return Landing{.pieces = {MutableByteSpan(landing).subspan(slot++ % 4 * kBlock, kBlock)}};
    };
    auto pieces = [&](wire::Kind, ByteSpan, uint64_t) -> Result<Landing> {   // 32 layers
      Landing result;
      for (size_t i = 0; i < 32; ++i) result.pieces.push_back(MutableByteSpan(landing).subspan(i * kBlock, kBlock / 32));
      return result;
    };
    std::vector<double> waits, one, deep, sockets, reads, scattered, stores;
    double block = double(kBlock) / 1e9;
    for (int round = 0; round < 5; ++round) {
      waits.push_back(latency_us(*client, *channel, small));
      one.push_back(rate(*client, *channel, 1, small));
      deep.push_back(rate(*client, *channel, 64, small));
      sockets.push_back(plain());
      reads.push_back(block * rate(*client, *channel, 4, read, whole));
      scattered.push_back(block * rate(*client, *channel, 4, read, pieces));
      stores.push_back(block * rate(*client, *channel, 4, store));
    }
    fmt::print("{}\n  4 KiB request: {:.1f} us a call from another thread; {:.0f} calls/s one at a time, {:.0f} calls/s 64 in flight\n",
               address.starts_with("unix") ? "Unix socket" : "TCP, loopback", median(waits), median(one), median(deep));
    fmt::print("  1 MiB payload, 4 in flight: plain TCP socket {:.2f} GB/s, read {:.2f}, read into 32 pieces {:.2f}, store {:.2f}\n", median(sockets),
               median(reads), median(scattered), median(stores));
  }
}
