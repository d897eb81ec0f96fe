// Every setting of every room, in one place to parse into; the tables refer to the fields beside them.
#pragma once
#include <millpond/pool.h>

#include <string>
#include <vector>

#include "admin/server.h"
#include "config/settings.h"
#include "master/master.h"
#include "measure/bench.h"
#include "node/node.h"
#include "replay/options.h"
#include "rpc/asio_runtime.h"

namespace millpond::apps {

struct Options {
  Options();                                // fills `tables`
  Options(const Options&) = delete;         // the tables point here
  void settle();                            // after parsing: who we are stands in [rpc] once, everybody gets it

  master::Options master;
  admin::Options master_admin{.listen = "127.0.0.1:7701"};
  node::Options node;
  admin::Options node_admin;
  rpc::AsioRuntime::Options rpc;            // cluster id and key are in its identity
  PoolOptions pool;
  Duration pool_deadline{0};                // of one call; 0: the pool's own
  measure::Options bench;
  replay::Options replay;

  std::vector<config::Section> tables;
};

}  // namespace millpond::apps
