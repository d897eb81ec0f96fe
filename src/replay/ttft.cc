#include "replay/ttft.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace millpond::replay {

std::vector<double> ttft_ms(std::span<const TurnCost> turns, const TtftModel& model) {
  std::unordered_map<uint32_t, double> engine_free, session_ready;   // ms of trace time
  std::vector<double> result;
  result.reserve(turns.size());
  for (const TurnCost& turn : turns) {
    double arrival = std::max(turn.timestamp_ms, session_ready[turn.session]);
    double start = std::max(arrival, engine_free[turn.engine]);
    double load = double(turn.tokens_loaded) * model.bytes_per_token / model.load_rate;
    double prefill = double(turn.tokens_prefilled) / model.prefill_speed;
    double first_token = start + (load + prefill) * 1e3;
    engine_free[turn.engine] = session_ready[turn.session] = first_token;
    result.push_back(first_token - arrival);
  }
  return result;
}

double percentile(std::vector<double> values, double fraction) {
  if (values.empty()) return 0;
  size_t rank = std::clamp<size_t>(size_t(std::ceil(fraction * double(values.size()))), 1, values.size());
  std::nth_element(values.begin(), values.begin() + rank - 1, values.end());
  return values[rank - 1];
}

}  // namespace millpond::replay
