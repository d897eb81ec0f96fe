// Goal: what design.md promises a cluster, one bad day per test.
// Method: the real master, nodes and clients in a simulated world. Each test is a short story; the checkers of
// sim/checkers.h watch all the time, and each test ends healed and quiet with nothing to report.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "sim/cluster.h"
#include "sim/content.h"

namespace millpond::sim {
namespace {
using namespace std::chrono_literals;

std::vector<std::string> chain(const std::string& name, size_t blocks) {
  std::vector<std::string> keys;
  for (size_t i = 0; i < blocks; ++i) keys.push_back(name + "/" + std::to_string(i));
  return keys;
}

// Until a lookup by this client finds so many: a client whose connection died with a host needs one call to find out,
// and does without the master for a moment then.
bool finds_within(Cluster& cluster, ClusterClient& client, const std::vector<std::string>& keys, size_t count, Duration limit) {
  auto until = cluster.world().now() + limit;
  while (client.lookup(keys).matched != count) {
    if (cluster.world().now() >= until) return false;
    cluster.run_for(50ms);
  }
  return true;
}

void expect_quiet_and_well(Cluster& cluster) {
  cluster.quiesce();
  EXPECT_EQ(cluster.violations(), "");
}

// Stores chains of 8 until the nodes have evicted something. Answers the chains' names.
std::vector<std::string> fill(Cluster& cluster, ClusterClient& client) {
  std::vector<std::string> names;
  for (int i = 0; i < 400; ++i) {
    names.push_back("fill" + std::to_string(i));
    client.store(chain(names.back(), 8));
    bool evicted_everywhere = true;
    for (size_t n = 0; n < cluster.nodes(); ++n)
      if (cluster.node_up(n)) evicted_everywhere = evicted_everywhere && cluster.node(n).dram().usage().condemned.count > 0;
    if (evicted_everywhere) return names;
  }
  ADD_FAILURE() << "the nodes are not full after 400 chains";
  return names;
}

TEST(Scenario, a_store_is_visible_to_others_when_it_returns) {
  Cluster cluster(1, {.nodes = 3, .clients = 3, .embedded = 1});
  for (size_t writer = 0; writer < 3; ++writer) {
    auto keys = chain("writer" + std::to_string(writer), 10);
    EXPECT_EQ(cluster.client(writer).store(keys).count(Code::ok), 10u);
    for (size_t reader = 0; reader < 3; ++reader) {
      auto plan = cluster.client(reader).lookup(keys);
      EXPECT_EQ(plan.matched, 10u) << "writer " << writer << " reader " << reader;
      EXPECT_EQ(cluster.client(reader).load(plan, keys).count(Code::ok), 10u);
    }
  }
  expect_quiet_and_well(cluster);
}

TEST(Scenario, a_lookup_finds_the_longest_prefix_and_no_more) {
  Cluster cluster(2, {.nodes = 2});
  auto keys = chain("a", 6);
  cluster.client(0).store({keys.begin(), keys.begin() + 3});
  cluster.client(0).store({keys.begin() + 4, keys.end()});
  EXPECT_EQ(cluster.client(1).lookup(keys).matched, 3u);
  EXPECT_EQ(cluster.client(1).locate(keys).matched, 5u);
  expect_quiet_and_well(cluster);
}

// Goal: a host that vanishes without a word costs misses, and no call waits longer than its deadline.
TEST(Scenario, a_node_that_dies_silently_is_a_miss_within_the_deadline) {
  Cluster cluster(3, {.nodes = 3, .clients = 3, .embedded = 2});
  auto lost = chain("lost", 6), kept = chain("kept", 6), both = lost;
  both.insert(both.end(), kept.begin(), kept.end());
  ASSERT_EQ(cluster.client(1).store(lost).count(Code::ok), 6u);
  ASSERT_EQ(cluster.client(0).store(kept).count(Code::ok), 6u);
  ASSERT_TRUE(cluster.holds(1, lost[0]));
  auto& engine = cluster.client(2);
  auto plan = engine.locate(both);
  ASSERT_EQ(plan.matched, 12u);
  cluster.crash_node(1, /*silent=*/true);
  // At once, with a plan of before: the checkers see to the deadline. What another node has arrives all the same.
  auto load = engine.load(plan, both);
  for (size_t i = 0; i < both.size(); ++i) EXPECT_EQ(load.loaded[i].code == Code::ok, i >= 6) << both[i];
  // Dead for the master: nobody is sent there any more.
  cluster.run_for(cluster.options().master.dead_after + 2 * cluster.options().master.heartbeat_interval);
  auto later = engine.locate(both);
  EXPECT_EQ(later.matched, 6u);
  for (auto& replicas : later.replicas)
    for (auto& replica : replicas) EXPECT_NE(replica.node_name, cluster.node_name(1));
  expect_quiet_and_well(cluster);
}

TEST(Scenario, a_node_process_that_crashes_starts_its_next_life_empty) {
  Cluster cluster(4, {.nodes = 2, .clients = 3, .embedded = 2});
  auto lost = chain("lost", 6), kept = chain("kept", 6), both = lost;
  both.insert(both.end(), kept.begin(), kept.end());
  ASSERT_EQ(cluster.client(1).store(lost).count(Code::ok), 6u);
  ASSERT_EQ(cluster.client(0).store(kept).count(Code::ok), 6u);
  cluster.crash_node(1);
  cluster.run_for(100ms);
  EXPECT_EQ(cluster.client(2).load(both).count(Code::ok), 6u);
  cluster.start_node(1);
  EXPECT_TRUE(cluster.run_until([&] { return cluster.joined(1); }, 5s));
  EXPECT_EQ(cluster.client(2).locate(both).matched, 6u) << "what stood in the former life is void";
  expect_quiet_and_well(cluster);
}

// Goal: dead is reversible. A node that was cut off for so long that it counts as dead comes back with all its blocks.
TEST(Scenario, a_node_that_was_cut_off_comes_back_with_its_blocks) {
  Cluster cluster(5, {.nodes = 2, .clients = 2, .embedded = 1});
  auto keys = chain("a", 12);
  ASSERT_EQ(cluster.client(0).store(keys).count(Code::ok), 12u);
  cluster.cut_off_node(0);
  cluster.run_for(cluster.options().master.dead_after + 3s);
  EXPECT_EQ(cluster.client(1).locate(keys).matched, 0u);
  cluster.heal();
  EXPECT_TRUE(cluster.run_until([&] { return cluster.client(1).locate(keys).matched == 12; }, 15s));
  EXPECT_EQ(cluster.client(1).load(keys).count(Code::ok), 12u);
  expect_quiet_and_well(cluster);
}

// Goal: a new master knows nothing; what the nodes hold is found again in seconds, and nothing is lost.
TEST(Scenario, after_a_new_master_the_blocks_are_found_again) {
  for (bool silent : {false, true}) {
    SCOPED_TRACE(silent ? "the host vanished" : "the process was killed");
    Cluster cluster(6, {.nodes = 3, .clients = 2, .embedded = 1});
    auto keys = chain("a", 20);
    ASSERT_EQ(cluster.client(0).store(keys).count(Code::ok), 20u);
    cluster.crash_master(silent);
    cluster.run_for(2s);
    cluster.client(0).load(keys);        // whatever it answers, by the deadline
    cluster.start_master();
    EXPECT_TRUE(finds_within(cluster, cluster.client(1), keys, 20, 4s));
    auto plan = cluster.client(1).lookup(keys);
    EXPECT_EQ(cluster.client(1).load(plan, keys).count(Code::ok), 20u);
    expect_quiet_and_well(cluster);
  }
}

// Goal: without a master an engine goes on with the node in its own process; its stores are visible once there is one.
TEST(Scenario, without_a_master_local_hits_go_on_and_stores_become_visible_later) {
  Cluster cluster(7, {.nodes = 2, .clients = 2, .embedded = 1});
  auto keys = chain("a", 8), more = chain("b", 8);
  ASSERT_EQ(cluster.client(0).store(keys).count(Code::ok), 8u);
  cluster.pause_master();
  auto first = cluster.client(0).store(more);          // may wait for the master once
  EXPECT_EQ(first.count(Code::ok), 8u);
  auto again = cluster.client(0).store(chain("c", 8));
  EXPECT_EQ(again.count(Code::ok), 8u);
  EXPECT_EQ(cluster.client(0).load(keys).count(Code::ok), 8u);
  EXPECT_EQ(cluster.client(1).lookup(keys).matched, 0u) << "elsewhere it is a miss, by the deadline";
  cluster.resume_master();
  EXPECT_TRUE(cluster.run_until([&] { return cluster.joined(0) && cluster.joined(1); }, 15s));
  EXPECT_TRUE(finds_within(cluster, cluster.client(1), more, 8, 2s));
  expect_quiet_and_well(cluster);
}

// Goal: the checkers' "removed means gone", at its hardest: the holder does not hear of the removal.
TEST(Scenario, a_key_removed_while_its_holder_was_cut_off_does_not_come_back) {
  for (bool new_master : {false, true}) {
    SCOPED_TRACE(new_master ? "and the master was replaced meanwhile" : "the same master");
    Cluster cluster(8, {.nodes = 3, .clients = 4, .embedded = 3});
    auto keys = chain("a", 12);
    ASSERT_EQ(cluster.client(2).store(keys).count(Code::ok), 12u);
    cluster.cut_off_node(2);
    cluster.run_for(12s);                                // it counts as dead
    auto removal = cluster.client(0).remove(keys);
    EXPECT_EQ(removal.code, Code::ok);
    if (new_master) {
      cluster.crash_master();
      cluster.start_master();
      cluster.run_for(3s);
    }
    EXPECT_EQ(cluster.keys_at(2).size(), 12u) << "it has not heard";
    cluster.heal();
    // From its first breath: not one lookup may find them.
    for (int i = 0; i < 200; ++i) {
      EXPECT_EQ(cluster.client(3).locate(keys).matched, 0u);
      cluster.run_for(50ms);
    }
    EXPECT_TRUE(cluster.keys_at(2).empty());
    expect_quiet_and_well(cluster);
  }
}

TEST(Scenario, a_removal_that_no_log_remembers_still_does_not_come_back) {
  ClusterOptions options{.nodes = 2, .clients = 3, .embedded = 2};
  options.master.removals_kept = options.node.removals_kept = 2;
  Cluster cluster(9, options);
  auto keys = chain("a", 16);
  ASSERT_EQ(cluster.client(1).store(keys).count(Code::ok), 16u);
  cluster.cut_off_node(1);
  cluster.run_for(12s);
  for (auto& key : keys) EXPECT_EQ(cluster.client(0).remove({key}).code, Code::ok);   // 16 records where 2 are kept
  cluster.heal();
  for (int i = 0; i < 60; ++i) {
    EXPECT_EQ(cluster.client(2).locate(keys).matched, 0u);
    cluster.run_for(50ms);
  }
  EXPECT_TRUE(cluster.keys_at(1).empty()) << "where no log reaches back, its blocks are dropped";
  expect_quiet_and_well(cluster);
}

TEST(Scenario, a_removed_key_can_be_stored_again) {
  Cluster cluster(10, {.nodes = 2, .clients = 2, .embedded = 1});
  auto keys = chain("a", 8);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(cluster.client(round % 2).store(keys).count(Code::ok), 8u);
    EXPECT_EQ(cluster.client(1).lookup(keys).matched, 8u);
    auto removal = cluster.client((round + 1) % 2).remove(keys);
    EXPECT_EQ(removal.removed, 8u);
    EXPECT_EQ(cluster.client(1).lookup(keys).matched, 0u);
    EXPECT_EQ(cluster.client(0).load(keys).count(Code::ok), 0u);
  }
  expect_quiet_and_well(cluster);
}

TEST(Scenario, remove_all_leaves_nothing_and_a_client_that_has_not_heard_hashes_again) {
  Cluster cluster(11, {.nodes = 2, .clients = 3, .embedded = 1});
  auto keys = chain("a", 10);
  ASSERT_EQ(cluster.client(0).store(keys).count(Code::ok), 10u);
  EXPECT_EQ(cluster.client(1).remove_all().code, Code::ok);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(cluster.client(i).lookup(keys).matched, 0u) << "client " << i;
    EXPECT_EQ(cluster.client(i).load(keys).count(Code::ok), 0u) << "client " << i;
  }
  // Client 2 has not been told; its store is of the new generation all the same.
  EXPECT_EQ(cluster.client(2).store(keys).count(Code::ok), 10u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(cluster.client(i).lookup(keys).matched, 10u) << "client " << i;
  expect_quiet_and_well(cluster);
}

TEST(Scenario, remove_all_survives_the_master) {
  Cluster cluster(12, {.nodes = 3, .clients = 4, .embedded = 3});
  auto keys = chain("a", 12);
  ASSERT_EQ(cluster.client(2).store(keys).count(Code::ok), 12u);
  cluster.cut_off_node(2);
  cluster.run_for(12s);
  EXPECT_EQ(cluster.client(0).remove_all().code, Code::ok);
  cluster.crash_master();
  cluster.start_master();
  EXPECT_TRUE(cluster.run_until([&] { return cluster.joined(0) && cluster.joined(1); }, 10s));
  cluster.heal();
  EXPECT_TRUE(cluster.run_until([&] { return cluster.joined(2); }, 15s));
  EXPECT_EQ(cluster.client(3).locate(keys).matched, 0u);
  expect_quiet_and_well(cluster);
}

// Goal: two writers disagree about the bytes of a key. Whoever loads gets one of the two, entirely.
TEST(Scenario, two_nodes_store_different_bytes_under_one_key) {
  Cluster cluster(13, {.nodes = 2, .clients = 3, .embedded = 2});
  auto keys = chain("a", 6);
  // Each at its own node, while neither can tell the master.
  cluster.pause_master();
  EXPECT_EQ(cluster.client(0).store(keys, /*version=*/0).count(Code::ok), 6u);
  EXPECT_EQ(cluster.client(1).store(keys, /*version=*/7).count(Code::ok), 6u);
  cluster.resume_master();
  EXPECT_TRUE(cluster.run_until([&] { return cluster.joined(0) && cluster.joined(1); }, 20s));
  cluster.run_for(2s);
  for (auto& key : keys) EXPECT_NE(cluster.holds(0, key), cluster.holds(1, key)) << key << ": the first stays, the other copy is dropped";
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(cluster.client(i).load(keys).count(Code::ok), 6u) << "client " << i;
  // And with everybody awake the second writer is told that the key exists.
  EXPECT_EQ(cluster.client(2).store(keys, /*version=*/9).count(Code::exists), 6u);
  expect_quiet_and_well(cluster);
}

TEST(Scenario, two_nodes_with_the_same_bytes_are_replicas) {
  Cluster cluster(14, {.nodes = 2, .clients = 3, .embedded = 2});
  auto keys = chain("a", 6);
  cluster.pause_master();
  EXPECT_EQ(cluster.client(0).store(keys).count(Code::ok), 6u);
  EXPECT_EQ(cluster.client(1).store(keys).count(Code::ok), 6u);
  cluster.resume_master();
  EXPECT_TRUE(cluster.run_until([&] { return cluster.joined(0) && cluster.joined(1); }, 20s));
  auto plan = cluster.client(2).lookup(keys);
  ASSERT_EQ(plan.matched, 6u);
  for (auto& replicas : plan.replicas) EXPECT_EQ(replicas.size(), 2u);
  // One of them goes: the other serves, in the same call.
  cluster.crash_node(0);
  EXPECT_EQ(cluster.client(2).load(plan, keys).count(Code::ok), 6u);
  expect_quiet_and_well(cluster);
}

// Goal: a full node whose blocks are all protected says no_space, by the deadline, and the engine goes on.
TEST(Scenario, a_node_full_of_protected_blocks_answers_no_space) {
  ClusterOptions options{.nodes = 1};
  options.node.dram.protected_fraction = 0.9;
  options.node.dram.protection = 60s;
  Cluster cluster(15, options);
  size_t ok = 0, no_space = 0;
  for (int i = 0; i < 40; ++i) {
    auto keys = chain("fill" + std::to_string(i), 8);
    auto store = cluster.client(0).store(keys);
    ok += store.count(Code::ok), no_space += store.count(Code::no_space);
    EXPECT_EQ(store.count(Code::ok) + store.count(Code::no_space), 8u);
    cluster.client(0).lookup(keys);       // protects what is there
    cluster.run_for(100ms);
  }
  EXPECT_GT(ok, 30u);
  EXPECT_GT(no_space, 100u);
  // When protection ends there is room again.
  cluster.run_for(61s);
  EXPECT_EQ(cluster.client(0).store(chain("later", 4)).count(Code::ok), 4u);
  expect_quiet_and_well(cluster);
}

// Goal: nobody who only asks can stop eviction (field faults: a poller pinned a whole pool; 0 of 649 evictions).
TEST(Scenario, a_poller_cannot_stop_eviction) {
  Cluster cluster(16, {.nodes = 1, .clients = 2});
  auto names = fill(cluster, cluster.client(0));
  uint64_t stored = 0;
  for (int i = 0; i < 60; ++i) {
    for (auto& name : names) cluster.client(1).lookup(chain(name, 8));
    auto store = cluster.client(0).store(chain("new" + std::to_string(i), 8));
    stored += store.count(Code::ok);
    cluster.run_for(100ms);
  }
  EXPECT_EQ(stored, 480u);
  expect_quiet_and_well(cluster);
}

// Goal: a node that joins a full cluster is not flooded: at most twice its fair share of the stores.
TEST(Scenario, a_node_that_joins_a_full_cluster_gets_at_most_twice_its_share) {
  ClusterOptions options{.nodes = 4, .clients = 2};
  options.nodes_started = 3;
  Cluster cluster(17, options);
  fill(cluster, cluster.client(0));
  cluster.run_for(60s);
  cluster.start_node(3);
  ASSERT_TRUE(cluster.run_until([&] { return cluster.joined(3); }, 10s));
  size_t all = 0, there = 0;
  for (int i = 0; i < 40; ++i) {
    auto keys = chain("new" + std::to_string(i), 4);
    cluster.client(i % 2).lookup(keys);                  // as engines do; weights ride on the answer
    auto store = cluster.client(i % 2).store(keys);
    for (auto& outcome : store.stored) {
      all += outcome.code == Code::ok;
      there += outcome.code == Code::ok && outcome.owner == cluster.node_name(3);
    }
    cluster.run_for(250ms);
  }
  EXPECT_EQ(all, 160u);
  EXPECT_LE(there, 2 * all / 4) << "of " << all;
  EXPECT_GT(there, 0u) << "it gets some";
  expect_quiet_and_well(cluster);
}

TEST(Scenario, requests_that_arrive_twice_change_nothing) {
  ClusterOptions options{.nodes = 2, .clients = 2, .embedded = 1};
  options.network.duplicate = 0.5;
  Cluster cluster(18, options);
  for (int i = 0; i < 30; ++i) {
    auto keys = chain("a" + std::to_string(i), 6);
    EXPECT_EQ(cluster.client(i % 2).store(keys).count(Code::ok), 6u);
    if (i % 3 == 0) cluster.client(0).remove(keys);
  }
  expect_quiet_and_well(cluster);
}

// Goal: an advertisement that its node gave up arrives after the node has joined again, and is not believed.
TEST(Scenario, an_advertisement_that_arrives_late_is_not_believed) {
  ClusterOptions options{.nodes = 2, .clients = 2, .embedded = 1};
  options.network.late_after_close = 1;
  options.network.stall_limit = 1500ms;
  Cluster cluster(19, options);
  auto keys = chain("a", 6), more = chain("b", 6);
  ASSERT_EQ(cluster.client(0).store(keys).count(Code::ok), 6u);
  for (int round = 0; round < 5; ++round) {
    cluster.network().cut(cluster.node_host(0), cluster.master_host());
    auto name = "cut" + std::to_string(round);
    EXPECT_EQ(cluster.client(0).store(chain(name, 6)).count(Code::ok), 6u);
    cluster.run_for(std::chrono::seconds(1 + round));
    cluster.heal();
    cluster.client(0).remove(chain(name, 6));
    cluster.run_for(1s);
    EXPECT_EQ(cluster.client(1).locate(chain(name, 6)).matched, 0u);
  }
  expect_quiet_and_well(cluster);
}

// Goal: a byte flips in a node's memory: that replica is a miss, and it is dropped, not served for ever.
TEST(Scenario, a_flipped_byte_is_never_served) {
  Cluster cluster(20, {.nodes = 1, .clients = 2});
  auto keys = chain("a", 10);
  ASSERT_EQ(cluster.client(0).store(keys).count(Code::ok), 10u);
  auto bad = cluster.flip_byte(0);
  ASSERT_NE(bad, "");
  auto load = cluster.client(1).load(keys);
  for (size_t i = 0; i < keys.size(); ++i) EXPECT_EQ(load.loaded[i].code == Code::ok, keys[i] != bad) << keys[i];
  cluster.run_for(2s);
  EXPECT_FALSE(cluster.holds(0, bad)) << "the owner has looked, and dropped it";
  EXPECT_EQ(cluster.client(0).store({bad}).count(Code::ok), 1u);
  EXPECT_EQ(cluster.client(1).load(keys).count(Code::ok), 10u);
  expect_quiet_and_well(cluster);
}

TEST(Scenario, bytes_that_flip_under_way_are_misses_and_the_owner_keeps_its_copy) {
  ClusterOptions options{.nodes = 2, .clients = 2};
  Cluster cluster(21, options);
  auto keys = chain("a", 12);
  ASSERT_EQ(cluster.client(0).store(keys).count(Code::ok), 12u);
  cluster.network().options().flip_payload = 0.2;
  for (int i = 0; i < 10; ++i) cluster.client(1).load(keys);   // the checkers look at every byte
  cluster.network().options().flip_payload = 0;
  EXPECT_EQ(cluster.client(1).load(keys).count(Code::ok), 12u);
  expect_quiet_and_well(cluster);
}

TEST(Scenario, a_node_that_says_goodbye_is_gone_at_once) {
  Cluster cluster(22, {.nodes = 2, .clients = 3, .embedded = 2});
  auto there = chain("there", 6), here = chain("here", 6);
  ASSERT_EQ(cluster.client(1).store(there).count(Code::ok), 6u);
  ASSERT_EQ(cluster.client(0).store(here).count(Code::ok), 6u);
  cluster.stop_node(1);
  EXPECT_EQ(cluster.client(2).locate(there).matched, 0u);
  EXPECT_EQ(cluster.client(2).locate(here).matched, 6u);
  expect_quiet_and_well(cluster);
}

TEST(Scenario, no_node_at_all_is_unavailable_or_no_space_by_the_deadline) {
  ClusterOptions options{.nodes = 1};
  options.nodes_started = 0;
  Cluster cluster(23, options);
  auto keys = chain("a", 3);
  EXPECT_EQ(cluster.client(0).store(keys).count(Code::ok), 0u);
  EXPECT_EQ(cluster.client(0).lookup(keys).matched, 0u);
  EXPECT_EQ(cluster.client(0).load(keys).count(Code::ok), 0u);
  cluster.start_node(0);
  ASSERT_TRUE(cluster.run_until([&] { return cluster.joined(0); }, 5s));
  cluster.run_for(2s);
  cluster.client(0).lookup(keys);        // who there is rides on the master's answer
  EXPECT_EQ(cluster.client(0).store(keys).count(Code::ok), 3u);
  expect_quiet_and_well(cluster);
}

}  // namespace
}  // namespace millpond::sim
