#include "options.h"

#include "admin/settings.h"
#include "master/settings.h"
#include "measure/settings.h"
#include "node/settings.h"
#include "rpc/settings.h"

namespace millpond::apps {
namespace {

config::Section describe(PoolOptions& pool, Duration& deadline) {
  config::Section s("client", "What put, get, locate, rm, stat and bench talk to. Cluster id, key and tenant stand in [rpc].");
  s.add("master", pool.master, "host:port of the master.");
  s.add("namespace", pool.namespace_name, "Whose keys these are: usually a fingerprint of model, dtype, layout and block size.");
  s.add("transports", pool.transports, "Ways that bytes may take: local,shm,tcp; empty: MILLPOND_TRANSPORTS, else all.");
  s.add("deadline", deadline, "Of each call; 0 s: 100 ms for lookups, 1 s + bytes / 200 MB/s for loads and stores.");
  s.add_parsed(
      "open_deadline", "duration", "How long to try to reach the master.",
      [&pool](std::string_view text) {
        auto value = config::parse_duration(text);
        if (!value) return std::move(value).error();
        pool.open_deadline = std::chrono::ceil<std::chrono::milliseconds>(*value);
        return Status();
      },
      [&pool] { return config::text(pool.open_deadline); });
  return s;
}

}  // namespace

Options::Options() {
  pool.open_deadline = std::chrono::seconds(2);   // a person waits
  tables.push_back(master::describe(master));
  admin::describe(master_admin, tables.back());
  tables.push_back(node::describe(node));
  admin::describe(node_admin, tables.back());
  tables.push_back(rpc::describe(rpc));
  tables.push_back(describe(pool, pool_deadline));
  tables.push_back(measure::describe(bench));
  tables.push_back(replay::describe(replay));
}

void Options::settle() {
  const rpc::Identity& who = rpc.identity;
  pool.cluster_id = who.cluster_id;
  pool.cluster_key = who.cluster_key;
  pool.tenant = who.tenant;
  const replay::Options untouched;   // [replay] may say otherwise
  if (replay.cluster_id == untouched.cluster_id) replay.cluster_id = who.cluster_id;
  if (replay.cluster_key == untouched.cluster_key) replay.cluster_key = who.cluster_key;
  if (replay.tenant == untouched.tenant) replay.tenant = who.tenant;
}

}  // namespace millpond::apps
