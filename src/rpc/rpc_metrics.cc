#include "rpc/rpc_metrics.h"

namespace millpond::rpc {
namespace {
constexpr const char* kOut = "side=\"client\"";
constexpr const char* kIn = "side=\"server\"";
}  // namespace

RpcMetrics::RpcMetrics(Metrics& m)
    : connections_out(m.counter("millpond_rpc_connections_total", "Connections that finished Hello.", kOut)),
      connections_in(m.counter("millpond_rpc_connections_total", "Connections that finished Hello.", kIn)),
      open_out(m.gauge("millpond_rpc_connections_open", "Connections now.", kOut)),
      open_in(m.gauge("millpond_rpc_connections_open", "Connections now.", kIn)),
      connections_turned_away(m.counter("millpond_rpc_connections_turned_away_total", "Closed at once: the listener has connections_max.")),
      calls(m.counter("millpond_rpc_calls_total", "Calls made.")),
      call_seconds(m.histogram("millpond_rpc_call_seconds", "From call to answer, failed calls included.")),
      calls_in_flight(m.gauge("millpond_rpc_calls_in_flight", "Calls without an answer yet.")),
      replies_late(m.counter("millpond_rpc_replies_late_total", "Replies to calls that had ended.")),
      sends_cut(m.counter("millpond_rpc_sends_cut_total", "Connections closed because a payload was under way at its call's deadline.")),
      requests(m.counter("millpond_rpc_requests_total", "Requests that arrived.")),
      requests_in_flight(m.gauge("millpond_rpc_requests_in_flight", "Requests whose answer is not sent yet.")),
      expired(m.counter("millpond_rpc_expired_total", "Requests dropped because nobody waits for them any more.")),
      replies_expired(m.counter("millpond_rpc_replies_expired_total", "Payloads not sent because their request had expired.")),
      bytes_in(m.counter("millpond_rpc_bytes_in_total", "Bytes read from sockets.")),
      bytes_out(m.counter("millpond_rpc_bytes_out_total", "Bytes written to sockets.")),
      hello_refused_in(m.counter("millpond_rpc_hello_refused_total", "Connections that ended in Hello with a reason.", kIn)),
      hello_refused_out(m.counter("millpond_rpc_hello_refused_total", "Connections that ended in Hello with a reason.", kOut)),
      hello_timed_out(m.counter("millpond_rpc_hello_timed_out_total", "Connections closed because Hello took too long.")),
      frames_corrupt(m.counter("millpond_rpc_frames_corrupt_total", "Connections closed because a frame did not verify.")),
      stalled(m.counter("millpond_rpc_stalled_total", "Connections closed because half a frame made no progress.")) {
  for (size_t code = 0; code < calls_failed.size(); ++code)
    calls_failed[code] = &m.counter("millpond_rpc_calls_failed_total", "Calls that ended with this code.",
                                    fmt::format("code=\"{}\"", name(Code(code))));
}

}  // namespace millpond::rpc
