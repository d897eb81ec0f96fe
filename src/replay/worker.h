// An engine process: forked from the coordinator, told turn numbers over a socket pair, answering a TurnRecord each.
// The trace and the options come with the fork. Fork needs a process without threads: start before anything opens a pool.
//
//   coordinator → worker: u32 turn index; end of stream: leave
//   worker → coordinator: {u32 kind, u32 zero, u64 text length, TurnRecord} + text
//     kind ready (once, after its cache is open), turn (text: its load lines), failed (text: why; the worker leaves)
#pragma once
#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "replay/engine.h"
#include "replay/engine_cache.h"
#include "replay/options.h"
#include "replay/trace.h"

namespace millpond::replay {

// Opens engine `number`'s cache; called in the engine's own process.
using CacheFactory = std::function<Result<std::unique_ptr<EngineCache>>(const Options&, uint32_t number)>;

enum class ReplyKind : uint32_t { ready = 1, turn = 2, failed = 3 };

struct Reply {
  ReplyKind kind = ReplyKind::failed;
  TurnRecord record;
  std::string text;
};

class Worker {
 public:
  // Forks. unavailable: no process or socket to be had. internal: this process has threads already.
  static Result<std::unique_ptr<Worker>> start(const Options& options, const Trace& trace, uint32_t number, const CacheFactory& factory);
  ~Worker();                                  // ends the process: hangs up, waits 2 s, then kills it
  Worker(const Worker&) = delete;

  Status send(uint32_t turn);
  // Reads one whole reply; call when fd() is readable. unavailable: the process ended, with how.
  Result<Reply> receive();
  void kill();                                // at once; the destructor then need not wait
  int fd() const { return fd_; }
  pid_t pid() const { return pid_; }

 private:
  Worker(pid_t pid, int fd, uint32_t number) : pid_(pid), fd_(fd), number_(number) {}
  pid_t pid_;
  int fd_;
  uint32_t number_;
};

}  // namespace millpond::replay
