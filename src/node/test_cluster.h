// For this room's tests: a World with a TestMaster and nodes, and the words to store, read and ask with.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "node/node.h"
#include "node/test_master.h"

namespace millpond::node {

inline const Namespace kSpace;

inline std::string bytes_for(const std::string& key, size_t length, uint64_t salt = 0) {
  Random random(std::hash<std::string>()(key) + salt);
  std::string bytes(length, 0);
  for (auto& c : bytes) c = char(random.next());
  return bytes;
}

struct TestNode {
  TestNode(World& world, uint64_t id, Bytes memory = MiB(8), uint64_t epoch = 1, Options options = {})
      : world(world), runtime(world, {.role = uint8_t(wire::Role::node), .node_id = NodeId(id), .node_epoch = NodeEpoch(epoch)}) {
    options.socket_directory = "none";
    options.fault_in_background = false;
    options.name = "n" + std::to_string(id);
    options.dram.capacity = memory;
    options.dram.hugepages = false;
    auto started = Node::start(options, runtime, metrics);
    EXPECT_TRUE(started) << (started ? "" : started.error().text());
    node = std::move(*started);
  }
  ~TestNode() {
    node.reset();
    world.run_for(std::chrono::milliseconds(500));   // the goodbye, and what else is under way
  }

  bool joined() {
    return world.run_until_true([&] { return node->state().inventory_complete && node->state().unadvertised == 0; });
  }
  // Starts a write; the outcome appears when it ends.
  std::shared_ptr<std::optional<Code>> write(const std::string& key, const std::string& bytes, bool visible = true, uint32_t generation = 0,
                                             Duration deadline = std::chrono::seconds(5)) {
    auto outcome = std::make_shared<std::optional<Code>>();
    Namespace space = kSpace;
    space.generation = generation;
    node->owner()->write({{.key = hash_key(space, key), .key_text = key, .source = {as_bytes(bytes)}, .namespace_generation = generation}}, world.now + deadline, visible,
                         [outcome](std::vector<transfer::WriteOutcome> all) { *outcome = all.at(0).code; });
    return outcome;
  }
  Code write_now(const std::string& key, const std::string& bytes, bool visible = true, uint32_t generation = 0) {
    auto outcome = write(key, bytes, visible, generation);
    world.run_until_true([&] { return outcome->has_value(); });
    return outcome->value_or(Code::internal);
  }
  // The bytes, or the code's name.
  std::string read(const std::string& key, size_t room = 4 << 20, uint32_t generation = 0) {
    std::string target(room, 0);
    Namespace space = kSpace;
    space.generation = generation;
    transfer::ReadOutcome outcome;
    node->owner()->read({{hash_key(space, key), {{reinterpret_cast<std::byte*>(target.data()), target.size()}}}}, world.now + std::chrono::seconds(1),
                        [&](std::vector<transfer::ReadOutcome> all) { outcome = all.at(0); });
    return outcome.code == Code::ok ? target.substr(0, outcome.length) : std::string(name(outcome.code));
  }

  World& world;
  TestRuntime runtime;
  Metrics metrics;
  std::unique_ptr<Node> node;
};

// What stands in a tier, as a master should know it.
inline std::map<BlockId, TestMaster::Replica> table_of(tier::DramTier& tier) {
  std::map<BlockId, TestMaster::Replica> table;
  uint64_t cursor = 0;
  do {
    for (auto& block : tier.inventory(cursor, 100)) table[block.id] = {block.root, block.length, 0};
  } while (cursor != 0);
  return table;
}

// One request to a node, as a peer would make it.
inline Result<rpc::Reply> ask(World& world, rpc::Channel& channel, rpc::Message message, Duration limit = std::chrono::seconds(2), rpc::LandReply land = nullptr) {
  std::optional<Result<rpc::Reply>> answer;
  channel.call(std::move(message), world.now + limit, std::move(land), [&](Result<rpc::Reply> reply) { answer.emplace(std::move(reply)); });
  world.run_until_true([&] { return answer.has_value(); });
  return answer ? std::move(*answer) : Result<rpc::Reply>(error(Code::internal, "no answer"));
}

}  // namespace millpond::node
