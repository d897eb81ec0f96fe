#include "measure/baseline.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

namespace millpond::measure {
namespace {

// Blocks of one worker: its part of the working set, at least one block.
struct Blocks {
  Blocks(Bytes block, size_t workers, Bytes working_set)
      : size(block.count), count(std::max<uint64_t>(1, working_set.count / workers / block.count)), bytes(size * count, std::byte(1)) {}
  const std::byte* at(uint64_t round) const { return bytes.data() + (round % count) * size; }
  uint64_t size, count;
  ByteVector bytes;
};

class File {
 public:
  explicit File(int fd = -1) : fd_(fd) {}
  File(File&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  File& operator=(File&& other) noexcept { return std::swap(fd_, other.fd_), *this; }
  ~File() { if (fd_ >= 0) close(fd_); }
  int fd() const { return fd_; }

 private:
  int fd_;
};

bool send_all(int fd, const std::byte* bytes, uint64_t count) {
  for (ssize_t n; count; bytes += n, count -= uint64_t(n))
    if ((n = send(fd, bytes, count, MSG_NOSIGNAL)) <= 0) return false;
  return true;
}
bool receive_all(int fd, std::byte* bytes, uint64_t count) {
  for (ssize_t n; count; bytes += n, count -= uint64_t(n))
    if ((n = recv(fd, bytes, count, MSG_WAITALL)) <= 0) return false;
  return true;
}

Result<std::pair<File, File>> connected_pair() {
  auto wrong = [](const char* what) { return error(Code::unavailable, "loopback socket for the comparison: {}: {}", what, std::strerror(errno)); };
  File listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)), asking(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (listener.fd() < 0 || asking.fd() < 0) return wrong("socket");
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* raw = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.fd(), raw, length) || listen(listener.fd(), 1) || getsockname(listener.fd(), raw, &length)) return wrong("listen");
  if (connect(asking.fd(), raw, length)) return wrong("connect");
  File serving(accept4(listener.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  if (serving.fd() < 0) return wrong("accept");
  int yes = 1;
  for (int fd : {asking.fd(), serving.fd()}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  return std::pair(std::move(asking), std::move(serving));
}

}  // namespace

Rate copy_memory(Bytes block, size_t workers, Bytes working_set, Duration limit) {
  std::vector<Blocks> sources(workers, Blocks(block, workers, working_set));
  std::vector<ByteVector> targets(workers, ByteVector(block.count));
  return measure(workers, limit, [&](size_t worker, uint64_t round) {
    std::memcpy(targets[worker].data(), sources[worker].at(round), block.count);
    asm volatile("" : : "r"(targets[worker].data()) : "memory");   // the copy must happen although nobody reads it
    return block.count;
  });
}

Result<Rate> read_socket(Bytes block, size_t workers, Bytes working_set, Duration limit) {
  std::vector<std::pair<File, File>> pairs;
  for (size_t i = 0; i < workers; ++i) {
    MP_TRY(auto pair, connected_pair());
    pairs.push_back(std::move(pair));
  }
  std::vector<ByteVector> targets(workers, ByteVector(block.count));
  std::vector<std::thread> servers;
  for (auto& pair : pairs)
    servers.emplace_back([&, fd = pair.second.fd()] {
      Blocks blocks(block, workers, working_set);
      std::byte ask;
      for (uint64_t round = 0; receive_all(fd, &ask, 1); ++round)
        if (!send_all(fd, blocks.at(round), blocks.size)) break;
    });
  std::byte ask{1};
  for (size_t i = 0; i < workers; ++i) {   // the first block waits for the server's memory to be faulted
    send_all(pairs[i].first.fd(), &ask, 1);
    receive_all(pairs[i].first.fd(), targets[i].data(), block.count);
  }
  Rate rate = measure(workers, limit, [&](size_t worker, uint64_t) {
    int fd = pairs[worker].first.fd();
    return send_all(fd, &ask, 1) && receive_all(fd, targets[worker].data(), block.count) ? block.count : kDone;
  });
  for (auto& pair : pairs) shutdown(pair.first.fd(), SHUT_RDWR);
  for (auto& server : servers) server.join();
  return rate;
}

}  // namespace millpond::measure
