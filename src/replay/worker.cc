#include "replay/worker.h"

#include <ctime>
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <type_traits>

namespace millpond::replay {
namespace {

Time cpu_time() {
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return {std::chrono::seconds(spent.tv_sec) + Duration(spent.tv_nsec)};
}

constexpr uint64_t kTextMax = 1ull << 30;

struct ReplyHeader {
  uint32_t kind;
  uint32_t zero;
  uint64_t text_length;
  TurnRecord record;
};
static_assert(std::is_trivially_copyable_v<ReplyHeader>);

bool read_all(int fd, void* target, size_t size) {
  auto* at = static_cast<char*>(target);
  while (size > 0) {
    ssize_t n = ::recv(fd, at, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= size_t(n);
  }
  return true;
}

bool write_all(int fd, const void* source, size_t size) {
  auto* at = static_cast<const char*>(source);
  while (size > 0) {
    ssize_t n = ::send(fd, at, size, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    at += n;
    size -= size_t(n);
  }
  return true;
}

bool reply(int fd, ReplyKind kind, const TurnRecord& record, std::string_view text) {
  ReplyHeader header{uint32_t(kind), 0, text.size(), record};
  return write_all(fd, &header, sizeof header) && write_all(fd, text.data(), text.size());
}

// Not exact where threads come and go, but a fork from a threaded process would hang in ways that are hard to read.
size_t threads_here() {
  size_t count = 0;
  if (DIR* tasks = ::opendir("/proc/self/task")) {
    while (dirent* entry = ::readdir(tasks)) count += entry->d_name[0] != '.';
    ::closedir(tasks);
  }
  return count;
}

// The engine process' whole life.
int serve(int fd, const Options& options, const Trace& trace, uint32_t number, const CacheFactory& factory) {
  auto members = label_members(options.label);
  auto cache = members ? factory(options, number) : error(members.error());
  if (!cache) {
    reply(fd, ReplyKind::failed, {}, cache.error().text());
    return 1;
  }
  Engine engine({.number = number,
                 .block_size = options.block_size,
                 .layers = options.layers,
                 .batch_blocks = options.batch_blocks,
                 .line_prefix = *members,
                 .want_lines = !options.loads.empty(),
                 .clock = [] { return Time{std::chrono::steady_clock::now().time_since_epoch()}; },
                 .cpu_clock = cpu_time},
                std::move(*cache));
  if (!reply(fd, ReplyKind::ready, {}, "")) return 1;
  std::string lines;
  uint32_t turn;
  while (read_all(fd, &turn, sizeof turn) && turn < trace.turns.size()) {
    lines.clear();
    TurnRecord record = engine.run(trace, turn, lines);
    if (!reply(fd, ReplyKind::turn, record, lines)) return 1;
  }
  return 0;
}

}  // namespace

Result<std::unique_ptr<Worker>> Worker::start(const Options& options, const Trace& trace, uint32_t number, const CacheFactory& factory) {
  if (threads_here() > 1) return error(Code::internal, "engine processes must be forked before this process starts threads; it has {}", threads_here());
  int pair[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
    return error(Code::unavailable, "no socket pair for engine {}: {}", number, std::strerror(errno));
  pid_t parent = ::getpid();
  pid_t pid = ::fork();
  if (pid < 0) {
    ::close(pair[0]);
    ::close(pair[1]);
    return error(Code::unavailable, "cannot start engine process {}: {}", number, std::strerror(errno));
  }
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);              // no engine outlives its coordinator, however that ends
    if (::getppid() != parent) ::_exit(1);
    ::close(pair[0]);
    // Sockets of the engines before this one came along with the fork; that keeps none of them waiting, because the
    // coordinator hangs up by shutdown(), not by the last close.
    ::_exit(serve(pair[1], options, trace, number, factory));
  }
  ::close(pair[1]);
  return std::unique_ptr<Worker>(new Worker(pid, pair[0], number));
}

Worker::~Worker() {
  ::shutdown(fd_, SHUT_RDWR);                        // also where a later sibling inherited this socket
  ::close(fd_);
  for (int waited_ms = 0;; waited_ms += 5) {
    pid_t done = ::waitpid(pid_, nullptr, WNOHANG);
    if (done == pid_ || (done < 0 && errno != EINTR)) return;
    if (waited_ms >= 2000) break;
    ::poll(nullptr, 0, 5);
  }
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Worker::kill() { ::kill(pid_, SIGKILL); }

Status Worker::send(uint32_t turn) {
  if (write_all(fd_, &turn, sizeof turn)) return Status();
  return Status(Code::unavailable, "engine process {} (pid {}) has ended", number_, pid_);
}

Result<Reply> Worker::receive() {
  ReplyHeader header;
  if (!read_all(fd_, &header, sizeof header))
    return error(Code::unavailable, "engine process {} (pid {}) ended without an answer", number_, pid_);
  if (header.text_length > kTextMax) return error(Code::internal, "engine process {} sends {} bytes of text", number_, header.text_length);
  Reply result{ReplyKind(header.kind), header.record, std::string(header.text_length, '\0')};
  if (!read_all(fd_, result.text.data(), result.text.size()))
    return error(Code::unavailable, "engine process {} (pid {}) ended in the middle of an answer", number_, pid_);
  return result;
}

}  // namespace millpond::replay
