// What this room counts.
#pragma once
#include <array>
#include <string>

#include "base/metrics.h"
#include "base/status.h"

namespace millpond::rpc {

struct RpcMetrics {
  explicit RpcMetrics(Metrics& metrics);

  Counter& connections_out;
  Counter& connections_in;
  Gauge& open_out;
  Gauge& open_in;
  Counter& connections_turned_away;      // listener full
  Counter& calls;
  std::array<Counter*, 12> calls_failed; // by Code
  Histogram& call_seconds;
  Gauge& calls_in_flight;
  Counter& replies_late;                 // to a call that had ended
  Counter& sends_cut;                    // a payload was under way at its deadline: connection closed
  Counter& requests;
  Gauge& requests_in_flight;
  Counter& expired;                      // dropped on arrival
  Counter& replies_expired;              // made in vain
  Counter& bytes_in;
  Counter& bytes_out;
  Counter& hello_refused_in;
  Counter& hello_refused_out;
  Counter& hello_timed_out;
  Counter& frames_corrupt;
  Counter& stalled;
};

}  // namespace millpond::rpc
