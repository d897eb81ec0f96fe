#include "master/settings.h"

namespace millpond::master {

config::Section describe(Options& o) {
  using std::chrono::hours;
  using std::chrono::milliseconds;
  config::Section s("master", "Knows which block is on which node, which nodes live, and where the next block goes.");
  s.add("listen", o.listen, "host:port where nodes and clients find the master; anything but loopback needs a cluster key.");
  s.add("heartbeat_interval", o.heartbeat_interval, "How often nodes say that they live.", {milliseconds(10), hours(1)});
  s.add("suspect_after", o.suspect_after, "Silence after which a node's replicas are offered only after all others.", {milliseconds(20), hours(1)});
  s.add("dead_after", o.dead_after, "Silence after which a node's replicas are skipped; they count again when it returns.", {milliseconds(50), hours(24)});
  s.add("sweep_after", o.sweep_after, "Death after which a node's entries are erased from the directory.", {milliseconds(50), hours(24 * 7)});
  s.add("removal_deadline", o.removal_deadline, "How long a remove waits for every live node to confirm.", {milliseconds(1), hours(1)});
  s.add("ramp", o.ramp, "A new empty node gets its full share of stores after this long.", {milliseconds(0), hours(24)});
  s.add("touch_interval", o.touch_interval, "How long lookups gather before nodes are told which blocks were used.", {milliseconds(0), milliseconds(10'000)});
  return s;
}

}  // namespace millpond::master
