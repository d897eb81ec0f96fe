#include "rpc/settings.h"

namespace millpond::rpc {
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;

config::Section describe(AsioRuntime::Options& o) {
  config::Section s("rpc", "How the processes of one cluster talk to each other.");
  s.add("cluster_id", o.identity.cluster_id, "Processes talk to each other only if this is the same.");
  s.add_secret("cluster_key", o.identity.cluster_key,
               "Secret that every process of the cluster proves in Hello (openssl rand -hex 32); without one daemons serve loopback only.");
  s.settings().back().variable = "MILLPOND_CLUSTER_KEY";   // the name that engines know (pool.h): one for all processes of a cluster
  s.add("tenant", o.identity.tenant, "Whose blocks this process stores and finds.");
  s.add("connect_timeout", o.connect_timeout, "How long a connection may take to open.", {milliseconds(1), minutes(1)});
  s.add("hello_timeout", o.hello_timeout, "How long Hello may take, on both ends.", {milliseconds(10), minutes(1)});
  s.add("backoff_min", o.backoff_min, "After a failed connect, calls fail at once for this long; doubles with each failure.", {milliseconds(1), minutes(1)});
  s.add("backoff_max", o.backoff_max, "The longest that calls fail at once after a failed connect.", {milliseconds(1), minutes(10)});
  s.add("queue_calls_max", o.queue_calls_max, "Calls in flight to one peer; more are answered overloaded.", {1, 1 << 20});
  s.add("connections_max", o.connections_max, "Connections of one listening address; more are closed at once.", {1, 1 << 20});
  s.add("requests_in_flight_max", o.requests_in_flight_max, "Unanswered requests of one connection; reading stops at this number.", {1, 1 << 16});
  s.add("stall_timeout", o.stall_timeout, "A connection on which half a frame stands still for this long is closed.", {milliseconds(10), hours(1)});
  return s;
}

}  // namespace millpond::rpc
