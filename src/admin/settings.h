// The admin port's settings. They stand in the table of the daemon that has the port ([master] admin_listen, …), so
// that one file serves a master and a node on the same machine.
#pragma once
#include "admin/server.h"
#include "config/settings.h"

namespace millpond::admin {

inline void describe(Options& options, config::Section& section) {
  section.add("admin_listen", options.listen, "host:port for /metrics, /state, /healthz and /config; port 0 takes any free one, empty turns it off.");
  section.add("admin_remote", options.remote, "Lets admin_listen be an address that other machines reach; there is no password.");
}

}  // namespace millpond::admin
