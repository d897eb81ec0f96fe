// Modelled time to first token. No GPU is here, so the prefill is a figure that the caller states; the load is the rate
// that was measured, applied to the bytes of the real model.
//   start  = max(arrival, when this engine's previous prefill ends)
//   ttft   = (start - arrival) + loaded tokens × bytes per token / load rate + prefilled tokens / prefill speed
//   arrival = max(timestamp, first token of this session's previous turn)
// All in trace time, as if the trace were not compressed. Left out: attention's growth with context (it would favour
// hits), batching of several prefills, decode.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace millpond::replay {

struct TurnCost {
  double timestamp_ms = 0;
  uint32_t session = 0;
  uint32_t engine = 0;
  uint64_t tokens_loaded = 0;
  uint64_t tokens_prefilled = 0;
};

struct TtftModel {
  double prefill_speed = 10'000;       // tokens per second
  double bytes_per_token = 128 << 10;  // KV bytes of the real model
  double load_rate = 1e9;              // bytes per second
};

// One value in ms per turn, in the order given (trace order). REQUIRES: prefill_speed > 0; load_rate > 0.
std::vector<double> ttft_ms(std::span<const TurnCost> turns, const TtftModel& model);

// Nearest-rank percentile, fraction in (0, 1]; 0 for no values.
double percentile(std::vector<double> values, double fraction);

}  // namespace millpond::replay
