#include "sim/seed.h"

#include <fmt/format.h>

#include <algorithm>

namespace millpond::sim {
namespace {
using namespace std::chrono_literals;

template <typename T, size_t N>
T one_of(Random& random, const T (&values)[N]) { return values[random.below(N)]; }

ClusterOptions random_shape(Random& random) {
  ClusterOptions options;
  options.nodes = 1 + random.below(4);
  options.clients = 2 + random.below(3);
  options.embedded = random.chance(0.5) ? random.below(std::min(options.nodes, options.clients) + 1) : 0;
  for (size_t i = 0; i < options.nodes; ++i) options.arenas.push_back(one_of(random, {MiB(4), MiB(4), MiB(6), MiB(8)}));
  // Small bounds, so that what seldom overflows does so here.
  options.node.advertise_batch_max = one_of<size_t>(random, {1, 4, 64, 1024});
  // Nodes must keep as many as their master (master/removal_log.h): it takes a shorter tail for all there were.
  options.master.removals_kept = one_of<size_t>(random, {2, 16, 64 << 10});
  options.node.removals_kept = std::max(options.master.removals_kept, one_of<size_t>(random, {2, 16, 64 << 10}));
  options.node.dram.events_max = one_of<size_t>(random, {8, 1 << 20, 1 << 20});
  options.node.dram.condemned_fraction = one_of(random, {0.03, 0.05, 0.2});
  options.node.dram.protected_fraction = one_of(random, {0.5, 0.5, 0.1});
  if (random.chance(0.3)) {
    options.network.delay_max = std::chrono::milliseconds(1 + random.below(20));
    options.network.bytes_per_second = 100'000'000;
  }
  options.network.stall_limit = std::chrono::milliseconds(500 + random.below(12'000));
  // Each kind of trouble in some seeds only: all at once hides what each does alone.
  if (random.chance(0.3)) options.network.break_connection = 0.003;
  if (random.chance(0.3)) options.network.duplicate = 0.05;
  if (random.chance(0.3)) options.network.flip_payload = 0.003;
  if (random.chance(0.2)) options.network.flip_message = 0.002;
  return options;
}

std::string shape_text(const ClusterOptions& options) {
  std::string arenas;
  for (auto arena : options.arenas) arenas += fmt::format(" {}", arena.count >> 20);
  return fmt::format("{} nodes of{} MiB, {} clients ({} embedded), batches of {}, removals kept {} and {}", options.nodes, arenas, options.clients,
                     options.embedded, options.node.advertise_batch_max, options.master.removals_kept, options.node.removals_kept);
}

// Does one bad thing every now and then, and most of the time undoes it later.
class Faults {
 public:
  Faults(Cluster& cluster, uint64_t seed) : cluster_(cluster), random_(seed) {
    for (auto& weight : weights_) weight = random_.chance(0.5) ? 1 + random_.below(4) : 0;
    mean_ = std::chrono::milliseconds(300 + random_.below(6000));
    if (random_.chance(0.1)) mean_ = std::chrono::hours(1);   // a quiet seed
  }
  void start() { next(); }
  void stop() { stopped_ = true; }
  uint64_t count() const { return count_; }

 private:
  void after(Duration delay, std::function<void()> task) { cluster_.world().after(delay, kWorldProcess, std::move(task)); }
  Duration up_to(Duration limit) { return Duration(random_.below(uint64_t(limit.count()))); }
  // Also after stop(): what was begun is undone, quiesce() or not.
  void later(Duration limit, std::function<void()> task) { after(up_to(limit), std::move(task)); }
  void next() {
    after(up_to(2 * mean_), [this] {
      if (stopped_) return;
      one();
      next();
    });
  }
  void one() {
    uint64_t total = 0;
    for (auto weight : weights_) total += weight;
    if (total == 0) return;
    auto die = random_.below(total);
    size_t kind = 0;
    while (die >= weights_[kind]) die -= weights_[kind++];
    ++count_;
    auto node = random_.below(cluster_.nodes());
    auto host = cluster_.node_host(node);
    auto limit = random_.chance(0.3) ? 90s : random_.chance(0.5) ? 15s : 2s;   // beyond sweeping, beyond death, a moment
    switch (kind) {
      case 0:
        cluster_.crash_node(node, random_.chance(0.5));
        return later(limit, [this, node] { cluster_.start_node(node); });
      case 1:
        cluster_.crash_master(random_.chance(0.5));
        return later(random_.chance(0.5) ? 1s : 15s, [this] { cluster_.start_master(); });
      case 2:
        cluster_.network().cut_both(host, cluster_.master_host());
        return later(limit, [this, host] { mend(host, cluster_.master_host()); });
      case 3:
        random_.chance(0.5) ? cluster_.network().cut(host, cluster_.master_host()) : cluster_.network().cut(cluster_.master_host(), host);
        return later(limit, [this, host] { mend(host, cluster_.master_host()); });
      case 4: {
        auto client = cluster_.client(random_.below(cluster_.clients())).host();
        auto other = random_.chance(0.7) ? host : cluster_.master_host();
        cluster_.network().cut_both(client, other);
        return later(limit, [this, client, other] { mend(client, other); });
      }
      case 5:
        if (!cluster_.node_up(node)) return;
        cluster_.pause_node(node);
        return later(15s, [this, node] { if (cluster_.node_up(node)) cluster_.resume_node(node); });
      case 6:
        if (!cluster_.master_up()) return;
        cluster_.pause_master();
        return later(15s, [this] { if (cluster_.master_up()) cluster_.resume_master(); });
      case 7: return cluster_.network().break_connections(host, cluster_.master_host());
      case 8: return (void)cluster_.flip_byte(node);
      case 9:
        cluster_.cut_off_node(node);
        return later(limit, [this, host] { cluster_.network().reconnect(host); });
    }
  }
  void mend(HostId a, HostId b) {
    cluster_.network().heal(a, b);
    cluster_.network().heal(b, a);
  }

  Cluster& cluster_;
  Random random_;
  uint64_t weights_[10] = {};
  Duration mean_{};
  bool stopped_ = false;
  uint64_t count_ = 0;
};

// Every block at any node is found by any client, and loads, unless a fault of ours changed it.
uint64_t find_all_again(Cluster& cluster) {
  std::set<std::string> keys;
  for (size_t i = 0; i < cluster.nodes(); ++i)
    for (auto& key : cluster.keys_at(i)) keys.insert(key);
  // In small groups, so that a node's budget of protection does not matter to who is found.
  std::vector<std::string> all(keys.begin(), keys.end());
  // A client that was idle while the master was replaced learns it from its next call, and does without for a second.
  for (size_t i = 0; i < cluster.clients(); ++i) cluster.client(i).ask({"anything"}, true);
  cluster.run_for(2s);
  uint64_t found = 0;
  for (size_t at = 0; at < all.size(); at += 16) {
    std::vector<std::string> some(all.begin() + std::ptrdiff_t(at), all.begin() + std::ptrdiff_t(std::min(all.size(), at + 16)));
    auto& client = cluster.client((at / 16) % cluster.clients());
    auto asked = client.ask(some, /*each=*/true);
    auto& plan = asked.plan;
    auto load = client.load(plan, some);
    for (size_t i = 0; i < some.size(); ++i) {
      bool told = i < plan.lengths.size() && plan.lengths[i] != 0;
      if (!told) cluster.checkers().violated(fmt::format("NOT FOUND AGAIN: {} stands at a node, and a lookup after quiet by client {} does not find it (answer: {})", some[i], (at / 16) % cluster.clients(), name(asked.code)));
      else if (load.loaded[i].code == Code::ok) ++found;
      else if (!cluster.flipped().contains(some[i]))
        cluster.checkers().violated(fmt::format("NOT LOADED AGAIN: {} was found after quiet, its load answers {}", some[i], name(load.loaded[i].code)));
    }
  }
  return found;
}

}  // namespace

SeedResult run_seed(uint64_t seed, const std::string& follow) {
  Random random(seed ^ 0x73696d);
  auto shape = random_shape(random);
  SeedResult result{.seed = seed, .shape = shape_text(shape)};
  Cluster cluster(seed, shape);
  cluster.checkers().follow(follow);
  if (shape.node.dram.events_max < 1000) cluster.checkers().evictions_may_be_untold();
  WorkloadOptions agents;
  agents.agents = 2 + random.below(8);
  agents.turns = 60 + random.below(120);
  agents.remove = one_of(random, {0.0, 0.03, 0.03, 0.3});
  if (random.chance(0.5)) agents.remove_all = 0;
  if (random.chance(0.5)) agents.other_bytes = 0;
  Workload workload(cluster, agents, random.next());
  Faults faults(cluster, random.next());
  workload.start();
  faults.start();
  auto well = [&] { return cluster.checkers().violations().empty(); };
  cluster.run_until([&] { return workload.done() || !well(); }, std::chrono::minutes(20));
  if (well() && !workload.done()) cluster.checkers().violated("the workload has not ended after 20 minutes");
  faults.stop();
  if (well()) cluster.quiesce();
  if (well()) result.blocks_found_again = find_all_again(cluster);
  // What was found protects and refreshes, and no more: the directory still agrees.
  if (well()) cluster.quiesce();
  result.violations = cluster.violations();
  result.digest = cluster.digest();
  result.events = cluster.world().events();
  result.checked = cluster.checkers().counted();
  result.faults = faults.count();
  result.workload = workload.result();
  result.virtual_seconds = seconds(cluster.world().now().since_start) - 3600;
  return result;
}

}  // namespace millpond::sim
