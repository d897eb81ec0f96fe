// From what the engines reported to what a person asks: hit rate, tokens saved, TTFT, bytes, speed, wrong bytes.
#pragma once
#include <string>
#include <vector>

#include "replay/bound.h"
#include "replay/coordinator.h"
#include "replay/options.h"
#include "replay/trace.h"

namespace millpond::replay {

struct Summary {
  size_t turns = 0;
  size_t sessions = 0;
  size_t engines = 0;
  uint64_t tokens_total = 0;
  uint64_t tokens_not_prefilled = 0;     // full blocks loaded and right, from the prompt's start, × 512
  double hit_rate = 0;
  double hit_rate_bound = 0;             // one infinite shared cache
  double hit_rate_bound_alone = 0;       // an infinite cache per engine
  uint64_t unique_blocks = 0;
  uint64_t blocks_loaded = 0;
  uint64_t blocks_verified = 0;
  uint64_t wrong_blocks = 0;
  uint64_t wrong_bytes = 0;
  uint64_t loaded_bytes = 0;
  uint64_t load_misses = 0;
  uint64_t blocks_stored = 0;
  uint64_t stores_existing = 0;
  uint64_t stores_failed = 0;
  uint64_t lookups_failed = 0;
  double load_seconds = 0;               // in load calls, summed over engines
  double load_cpu_seconds = 0;           // processor time of the engines in load calls
  double load_core_GBps = 0;             // loaded_bytes / load_cpu_seconds / 1e9: what one core moves and verifies
  double load_GBps = 0;                  // one engine, while it loads: loaded_bytes / load_seconds / 1e9
  double wall_seconds = 0;
  double trace_seconds = 0;
  double lookup_ms_p50 = 0, lookup_ms_p99 = 0;
  double ttft_ms_p50 = 0, ttft_ms_p99 = 0;
  std::vector<double> ttft_ms;           // per turn
};

Summary summarize(const Options& options, const Trace& trace, const ReplayRun& run);

// The figures, the model's parameters and one record per turn, as one JSON object.
std::string json(const Options& options, const Trace& trace, const ReplayRun& run, const Summary& summary);
// For the terminal.
std::string table(const Options& options, const Summary& summary);

}  // namespace millpond::replay
