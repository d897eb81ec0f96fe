#include "node/settings.h"

#include "tier/settings.h"

namespace millpond::node {

config::Section describe(Options& o) {
  using std::chrono::milliseconds;
  config::Section s("node", "One machine's share of the pool: memory for blocks, served to its peers.");
  s.add("master", o.master, "host:port of the master.");
  s.add("listen", o.listen, "host:port of the data port; port 0: any free one.");
  s.add("advertise", o.advertise, "host:port that peers use to reach this node; empty: where it listens.");
  s.add("socket_directory", o.socket_directory, "Directory of the Unix socket through which processes of this host share memory; empty: $XDG_RUNTIME_DIR/millpond or /tmp/millpond-<uid>; none: no shared memory.");
  s.add("name", o.name, "Name of this node for people; empty: host name and process id.");
  config::Section dram = tier::describe(o.dram);
  for (auto& setting : dram.settings()) s.settings().push_back(setting);
  s.add("events_max", o.dram.events_max, "Changes remembered while the master is away; beyond it the node tells its full inventory.", {1024, 64 << 20});
  s.add("master_deadline", o.master_deadline, "After one missed deadline the master counts as away: stores no longer wait for it.", {milliseconds(10), std::chrono::minutes(1)});
  s.add("advertise_batch_max", o.advertise_batch_max, "Blocks in one message to the master.", {8, 64 << 10});
  s.add("join_retry", o.join_retry, "Pause between two attempts to join a master.", {milliseconds(10), std::chrono::minutes(1)});
  return s;
}

}  // namespace millpond::node
