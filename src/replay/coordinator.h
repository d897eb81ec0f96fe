// Runs a trace over engine processes and gathers what they report.
// Lives on: the process' only thread (workers are forked from it).
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"
#include "replay/options.h"
#include "replay/trace.h"
#include "replay/worker.h"

namespace millpond::replay {

struct ReplayRun {
  std::vector<TurnRecord> records;       // by turn, trace order
  Duration wall{0};                      // first dispatch to last answer
};

struct ReplayHooks {
  std::function<void(size_t done, size_t all)> progress;   // after each turn
  std::function<Status(std::string_view)> lines;           // load lines of one turn; an error ends the replay
};

// unavailable, timed_out: an engine process could not open its cache, died, or took longer than turn_deadline.
Result<ReplayRun> replay_trace(const Options& options, const Trace& trace, const CacheFactory& factory, const ReplayHooks& hooks);

}  // namespace millpond::replay
