// Goal: a node keeps its promises to the engine in its process and to its master: what a synchronous store has returned
// can be found, a master that is away stops nobody, removed stays removed, other bytes under one key lose to the first.
// Method: whole nodes in virtual time against a reduced master (test_master.h).
#include "node/node.h"

#include "node/settings.h"
#include "node/test_cluster.h"

namespace millpond::node {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

BlockId id(const std::string& key) { return hash_key(kSpace, key).id; }

TEST(Node, ASynchronousStoreIsVisibleWhenItReturns) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  ASSERT_TRUE(node.joined());
  std::string bytes = bytes_for("a", 300'000);
  EXPECT_EQ(node.write_now("a", bytes), Code::ok);
  EXPECT_TRUE(master.directory[id("a")].contains(1)) << "at the moment it returned";
  EXPECT_EQ(node.read("a"), bytes);
  EXPECT_EQ(node.node->owner()->lengths_here({id("a"), id("b")}), (std::vector<uint64_t>{300'000, 0}));
  EXPECT_EQ(node.write_now("a", bytes), Code::exists);
  EXPECT_EQ(node.read("b"), "miss");
  EXPECT_EQ(node.read("a", 1000), "invalid") << "the target is too small";
}

TEST(Node, StoresBeforeTheFirstJoinWaitForIt) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  EXPECT_EQ(node.write_now("a", "bytes"), Code::ok);
  EXPECT_TRUE(master.directory[id("a")].contains(1));
}

TEST(Node, AMasterThatIsNotThereStopsNobody) {
  World world;
  TestNode node(world, 1);
  Time begun = world.now;
  EXPECT_EQ(node.write_now("a", "bytes"), Code::ok);
  EXPECT_LT(world.now - begun, milliseconds(100));
  EXPECT_EQ(node.read("a"), "bytes");
  EXPECT_TRUE(node.node->state().master_away);
  EXPECT_EQ(node.node->state().unadvertised, 1u);
  TestMaster master(world, 1);
  ASSERT_TRUE(node.joined());
  EXPECT_TRUE(master.directory[id("a")].contains(1)) << "visible after the join";
}

TEST(Node, AMasterThatFallsSilentDelaysStoresByOneDeadline) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  ASSERT_TRUE(node.joined());
  world.faulty.insert("127.0.0.1:7700");
  world.faults.silent = true;
  Time begun = world.now;
  EXPECT_EQ(node.write_now("a", "bytes"), Code::ok);
  EXPECT_LE(world.now - begun, milliseconds(1100));
  begun = world.now;
  for (int i = 0; i < 20; ++i) EXPECT_EQ(node.write_now("b" + std::to_string(i), "bytes"), Code::ok);
  EXPECT_LT(world.now - begun, milliseconds(10)) << "those after it do not wait";
  world.faults.silent = false;
  world.run_for(seconds(5));
  EXPECT_EQ(master.of(1), table_of(node.node->dram()));
  EXPECT_FALSE(node.node->state().master_away);
  EXPECT_EQ(node.metrics.values()["millpond_node_stores_unadvertised_total"], 21);
}

TEST(Node, TheDeadlineOfAStoreHoldsWhileTheMasterThinks) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  ASSERT_TRUE(node.joined());
  master.ignore_advertise = true;
  Time begun = world.now;
  auto outcome = node.write("a", "bytes", true, 0, milliseconds(200));
  world.run_until_true([&] { return outcome->has_value(); });
  EXPECT_EQ(*outcome, Code::ok);
  EXPECT_LE(world.now - begun, milliseconds(200));
}

TEST(Node, ANewMasterLearnsEverything) {
  World world;
  auto master = std::make_unique<TestMaster>(world, 1);
  TestNode node(world, 1);
  for (int i = 0; i < 30; ++i) node.write_now("k" + std::to_string(i), "bytes");
  master = std::make_unique<TestMaster>(world, 2);
  world.run_for(seconds(5));               // the heartbeat meets it
  EXPECT_EQ(master->of(1).size(), 30u);
  EXPECT_EQ(node.metrics.values()["millpond_node_joins_total"], 2);
}

TEST(Node, OtherBytesUnderOneKeyLoseToTheFirst) {
  World world;
  TestMaster master(world, 1);
  TestNode one(world, 1), two(world, 2);
  ASSERT_TRUE(one.joined() && two.joined());
  EXPECT_EQ(one.write_now("a", "first"), Code::ok);
  EXPECT_EQ(two.write_now("a", "other"), Code::exists) << "a success: it is in the pool";
  EXPECT_EQ(two.read("a"), "miss") << "its own copy is dropped";
  EXPECT_EQ(one.read("a"), "first");
  world.run_for(seconds(1));
  EXPECT_EQ(master.directory[id("a")].size(), 1u);
  EXPECT_EQ(two.write_now("b", "same"), Code::ok);
  EXPECT_EQ(one.write_now("b", "same"), Code::ok);
  EXPECT_EQ(master.directory[id("b")].size(), 2u) << "the same bytes are a replica";
}

TEST(Node, RemovedWhileTheHolderWasCutOffDoesNotComeBack) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  EXPECT_EQ(node.write_now("a", "bytes"), Code::ok);
  world.faulty.insert("127.0.0.1:7700");
  world.faults.silent = true;
  master.remove(id("a"), {});
  world.run_for(seconds(3));
  EXPECT_EQ(node.read("a"), "bytes") << "cut off: it cannot know";
  master.members.clear();                  // it comes back as a stranger
  world.faults.silent = false;
  world.run_for(seconds(10));
  EXPECT_EQ(node.read("a"), "miss");
  EXPECT_TRUE(master.of(1).empty());
  EXPECT_EQ(node.node->state().removal_last, master.log.back().number);
}

TEST(Node, AStoreThatCrossesARemovalIsNotToldAsOurs) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  ASSERT_TRUE(node.joined());
  auto outcome = node.write("a", "bytes");
  world.run_for(milliseconds(0));          // the advertisement is on its way
  master.remove(id("a"), {});
  world.run_until_true([&] { return outcome->has_value(); });
  EXPECT_EQ(*outcome, Code::ok) << "stored, then removed";
  EXPECT_EQ(node.read("a"), "miss");
  EXPECT_EQ(node.metrics.values()["millpond_node_copies_removed_total"], 1);
}

TEST(Node, RemovalsArriveInOrderAndAGapIsClosed) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  ASSERT_TRUE(node.joined());
  for (auto key : {"a", "b", "c"}) node.write_now(key, "bytes");
  master.remove(id("a"), {1});
  world.run_for(milliseconds(10));
  EXPECT_EQ(node.read("a"), "miss");
  master.remove(id("b"), {});              // this one gets lost
  master.members.at(1).removal_last = master.log.back().number;
  master.remove(id("c"), {1});
  world.run_for(milliseconds(1));
  EXPECT_EQ(node.read("c"), "bytes") << "not before b";
  EXPECT_EQ(node.metrics.values()["millpond_node_removal_gaps_total"], 1);
  world.run_for(seconds(3));               // the heartbeat says where the node stands
  EXPECT_EQ(node.read("b"), "miss");
  EXPECT_EQ(node.read("c"), "miss");
}

TEST(Node, WhereNoLogReachesBackTheBlocksGo) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  ASSERT_TRUE(node.joined());
  node.write_now("a", "bytes");
  master.reach_back = false;
  master.members.clear();
  world.run_for(seconds(5));
  EXPECT_EQ(node.read("a"), "miss");
  EXPECT_TRUE(master.of(1).empty());
}

TEST(Node, AWipedNamespaceIsGoneAndItsMemoryComesBack) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  for (int i = 0; i < 20; ++i) node.write_now("k" + std::to_string(i), bytes_for("k", 100'000));
  EXPECT_EQ(node.write_now("new", "bytes", true, /*generation=*/3), Code::ok) << "a writer that has heard of the wipe before us";
  EXPECT_EQ(node.read("k1"), "miss");
  EXPECT_EQ(node.write_now("old", "bytes", true, 2), Code::stale);
  world.run_for(seconds(3));
  EXPECT_EQ(node.node->state().dram.blocks, 1u);
  EXPECT_EQ(master.of(1), table_of(node.node->dram()));
}

TEST(Node, FullMeansEvictionAndTheMasterHears) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1, MiB(4));
  for (int i = 0; i < 60; ++i) EXPECT_EQ(node.write_now("k" + std::to_string(i), bytes_for("k", 200'000)), Code::ok);
  world.run_for(seconds(1));
  EXPECT_EQ(master.of(1), table_of(node.node->dram()));
  EXPECT_LT(master.of(1).size(), 60u);
  EXPECT_EQ(node.write_now("huge", bytes_for("h", 16 << 20)), Code::invalid) << "larger than the arena";
}

TEST(Node, LeavesWhenItEndsAndItsOwnerSaysUnavailable) {
  World world;
  TestMaster master(world, 1);
  std::shared_ptr<transfer::Owner> owner;
  {
    TestNode node(world, 1);
    ASSERT_TRUE(node.joined());
    owner = node.node->owner();
  }
  EXPECT_EQ(master.leaves, 1u);
  Code code = Code::ok;
  owner->write({{.key = hash_key(kSpace, "a"), .key_text = "a"}}, world.now + seconds(1), true, [&](std::vector<transfer::WriteOutcome> all) { code = all.at(0).code; });
  EXPECT_EQ(code, Code::unavailable);
  world.run_for(seconds(3));
}

TEST(Node, EndsWithAStoreStillWaiting) {
  World world;
  TestMaster master(world, 1);
  std::shared_ptr<std::optional<Code>> outcome;
  {
    TestNode node(world, 1);
    ASSERT_TRUE(node.joined());
    master.ignore_advertise = true;
    outcome = node.write("a", "bytes");
    world.run_for(milliseconds(1));
    EXPECT_FALSE(outcome->has_value());
  }
  EXPECT_EQ(*outcome, Code::ok) << "stored; nobody hangs";
}

TEST(Node, StateIsJson) {
  World world;
  TestMaster master(world, 1);
  TestNode node(world, 1);
  ASSERT_TRUE(node.joined());
  EXPECT_NE(node.node->state_json().find("\"joined\": true"), std::string::npos) << node.node->state_json();
}

TEST(NodeSettings, EverySettingIsNamedOnce) {
  Options options;
  auto section = describe(options);
  std::set<std::string> names;
  for (auto& setting : section.settings()) EXPECT_TRUE(names.insert(setting.name).second) << setting.name;
  EXPECT_TRUE(names.contains("memory"));
  EXPECT_TRUE(names.contains("join_retry"));
}

}  // namespace
}  // namespace millpond::node
