// Goal: a node on real sockets with threads in it stores, reads and ends cleanly, with stores under way.
// Method: asio runtimes on loopback, the reduced master as a service, four writers while the node is destroyed; run
// under TSan. No assertion about time.
#include <filesystem>
#include <future>
#include <thread>

#include "node/test_cluster.h"
#include "rpc/asio_runtime.h"

namespace millpond::node {
namespace {

using std::chrono::seconds;

struct RealNode : testing::Test {
  RealNode() : master(world, 1) {
    master_runtime = *rpc::AsioRuntime::create({.identity = {.role = uint8_t(wire::Role::master), .master_term = MasterTerm(1)}}, master_metrics);
    auto address = master_runtime->listen({.address = "127.0.0.1:0"}, &master);
    EXPECT_TRUE(address);
    runtime = *rpc::AsioRuntime::create({.identity = {.role = uint8_t(wire::Role::node), .node_id = NodeId(7), .node_epoch = NodeEpoch(1)}}, metrics);
    directory = std::filesystem::temp_directory_path() / fmt::format("millpond-node-test-{}", getpid());
    Options options{.master = *address, .socket_directory = directory};
    options.dram.capacity = MiB(64);
    options.dram.hugepages = false;
    auto started = Node::start(options, *runtime, metrics);
    EXPECT_TRUE(started) << (started ? "" : started.error().text());
    node = std::move(*started);
    owner = node->owner();
  }
  ~RealNode() override {
    node.reset();
    runtime.reset();
    master_runtime.reset();
    std::filesystem::remove_all(directory);
  }
  Code write(const std::string& key, const std::string& bytes, bool visible) {
    std::promise<Code> promise;
    owner->write({{.key = hash_key(kSpace, key), .key_text = key, .source = {as_bytes(bytes)}}}, runtime->now() + seconds(30), visible,
                 [&](std::vector<transfer::WriteOutcome> all) { promise.set_value(all.at(0).code); });
    return promise.get_future().get();
  }
  std::string read(const std::string& key) {
    std::string target(1 << 20, 0);
    transfer::ReadOutcome outcome;
    owner->read({{hash_key(kSpace, key), {{reinterpret_cast<std::byte*>(target.data()), target.size()}}}}, runtime->now() + seconds(30),
                [&](std::vector<transfer::ReadOutcome> all) { outcome = all.at(0); });
    return outcome.code == Code::ok ? target.substr(0, outcome.length) : std::string(name(outcome.code));
  }

  World world;
  TestMaster master;
  Metrics master_metrics, metrics;
  std::unique_ptr<rpc::AsioRuntime> master_runtime, runtime;
  std::filesystem::path directory;
  std::unique_ptr<Node> node;
  std::shared_ptr<transfer::Owner> owner;
};

TEST_F(RealNode, StoresAreVisibleWhenTheyReturn) {
  std::string bytes = bytes_for("a", 300'000);
  EXPECT_EQ(write("a", bytes, true), Code::ok);
  EXPECT_EQ(read("a"), bytes);
  EXPECT_TRUE(node->state().joined);
  std::promise<size_t> known;
  master_runtime->post([&] { known.set_value(master.directory.size()); });
  EXPECT_EQ(known.get_future().get(), 1u);
}

TEST_F(RealNode, APeerOnThisHostGetsBothDescriptors) {
  ASSERT_FALSE(std::filesystem::is_empty(directory));
  std::string path = std::filesystem::directory_iterator(directory)->path();
  EXPECT_EQ(write("a", "bytes", true), Code::ok);
  auto channel = master_runtime->channel({.address = "unix:" + path, .node_id = NodeId(7), .node_epoch = NodeEpoch(1)});
  std::vector<BlockId> ids{hash_key(kSpace, "a").id};
  wire::Builder b;
  auto vector = wire::ids(b, ids);
  std::promise<Result<rpc::Reply>> promise;
  channel->call({.kind = wire::Kind::read, .body = wire::finish(b, wire::CreateRead(b, vector, true))}, master_runtime->now() + seconds(30), nullptr,
                [&](Result<rpc::Reply> reply) { promise.set_value(std::move(reply)); });
  auto reply = promise.get_future().get();
  ASSERT_TRUE(reply) << reply.error().text();
  auto& answer = **wire::parse<wire::ReadReply>(reply->body);
  ASSERT_EQ(channel->shared_fds().size(), 2u);
  auto arena = memory::Arena::map(channel->shared_fds()[1], KiB(64), /*writable=*/false);
  ASSERT_TRUE(arena) << arena.error().text();
  auto& block = *answer.blocks()->Get(0);
  auto* place = (*arena)->page(memory::PageIndex(answer.pages()->Get(0))) + block.page_offset();
  EXPECT_EQ(as_text({place, 5}), "bytes");
}

TEST_F(RealNode, EndsWhileWritersAreAtWork) {
  std::atomic<int> stored{0};
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; ++w) {
    writers.emplace_back([&, w] {
      for (int i = 0;; ++i) {
        std::string key = fmt::format("w{}-{}", w, i);
        std::string bytes = bytes_for(key, 1 + i * 7919 % 200'000);
        Code code = write(key, bytes, i % 2);
        if (code == Code::unavailable) return;
        EXPECT_TRUE(code == Code::ok || code == Code::no_space) << name(code);
        std::string back = read(key);
        EXPECT_TRUE(back == bytes || back == "miss" || back == "unavailable") << back.substr(0, 20);
        ++stored;
        stored.notify_all();
      }
    });
  }
  for (int seen = 0; (seen = stored.load()) < 200;) stored.wait(seen);
  node.reset();
  for (auto& writer : writers) writer.join();
}

}  // namespace
}  // namespace millpond::node
