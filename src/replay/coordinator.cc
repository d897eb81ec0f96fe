#include "replay/coordinator.h"

#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "replay/dispatch.h"

namespace millpond::replay {
namespace {

Time clock_now() { return {std::chrono::steady_clock::now().time_since_epoch()}; }

// Waits until one of the workers answers; how many were readable, 0 at the end of `limit`.
Result<size_t> wait_readable(std::vector<pollfd>& fds, Duration limit) {
  int64_t ms = limit == Duration::max() ? -1 : std::clamp<int64_t>(milliseconds(limit) + 1, 0, 1 << 30);
  int count = ::poll(fds.data(), fds.size(), int(ms));
  if (count < 0 && errno != EINTR) return error(Code::internal, "poll: {}", std::strerror(errno));
  return size_t(std::max(count, 0));
}

}  // namespace

Result<ReplayRun> replay_trace(const Options& options, const Trace& trace, const CacheFactory& factory, const ReplayHooks& hooks) {
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<pollfd> fds;
  for (uint32_t i = 0; i < options.engines; ++i) {
    MP_TRY(auto worker, Worker::start(options, trace, i, factory));
    fds.push_back({.fd = worker->fd(), .events = POLLIN, .revents = 0});
    workers.push_back(std::move(worker));
  }
  for (size_t i = 0; i < workers.size(); ++i) {
    std::vector<pollfd> one{fds[i]};
    MP_TRY(size_t readable, wait_readable(one, options.open_deadline + std::chrono::seconds(5)));
    if (readable == 0) return error(Code::timed_out, "engine process {} did not open its cache in time", i);
    MP_TRY(Reply ready, workers[i]->receive());
    if (ready.kind != ReplyKind::ready) return error(Code::unavailable, "engine {}: {}", i, ready.text);
  }

  ReplayRun run;
  run.records.resize(trace.turns.size());
  Dispatch dispatch(trace, uint32_t(options.engines), options.speed);
  Time start = clock_now();
  std::vector<Time> busy_since(workers.size());
  while (!dispatch.finished()) {
    while (auto turn = dispatch.next(clock_now() - start)) {
      uint32_t engine = engine_of(trace.turns[*turn], uint32_t(options.engines));
      busy_since[engine] = clock_now();
      MP_OK(workers[engine]->send(*turn));
    }
    MP_TRY(size_t readable, wait_readable(fds, std::min(dispatch.wait(clock_now() - start), Duration(std::chrono::milliseconds(100)))));
    for (size_t i = 0; i < workers.size(); ++i) {
      if (readable > 0 && fds[i].revents != 0) {
        MP_TRY(Reply answer, workers[i]->receive());
        if (answer.kind != ReplyKind::turn || answer.record.turn >= trace.turns.size())
          return error(Code::internal, "engine {} answers out of turn: {}", i, answer.text);
        run.records[answer.record.turn] = answer.record;
        dispatch.ended(answer.record.turn);
        busy_since[i] = Time{};
        if (hooks.lines && !answer.text.empty()) MP_OK(hooks.lines(answer.text));
        if (hooks.progress) hooks.progress(dispatch.turns_ended(), trace.turns.size());
      } else if (busy_since[i] > Time{} && clock_now() - busy_since[i] > options.turn_deadline) {
        workers[i]->kill();
        return error(Code::timed_out, "engine process {} has worked on one turn for more than {}", i, config::text(options.turn_deadline));
      }
    }
  }
  run.wall = clock_now() - start;
  return run;
}

}  // namespace millpond::replay
