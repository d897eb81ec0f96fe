// Goal: a lookup finds what there is, a load brings it or says what happened, a store lands on a node that has room; and
// every call ends by its deadline, whoever fails. Method: a master and nodes made of functions, in virtual time.
#include "client/client.h"

#include <gtest/gtest.h>

#include "transfer/fake_node.h"
#include "wire/limits.h"

namespace millpond::client {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using transfer::FakeNode;
using transfer::FakeReply;
using transfer::FakeWorld;

ByteVector some_bytes(size_t count, uint64_t seed) {
  Random random(seed);
  ByteVector bytes(count);
  for (auto& b : bytes) b = std::byte(random.next());
  return bytes;
}

// A directory by looking into the nodes.
struct FakeMaster {
  struct Member {
    FakeNode* node = nullptr;
    NodeId id{};
    std::string address;
    uint32_t weight = 100;
    wire::NodeState state = wire::NodeState::alive;
  };
  std::vector<Member> members;
  uint32_t generation = 0;
  uint64_t version = 1;
  std::vector<std::pair<NodeId, Code>> reports;
  bool silent = false;
  int views_sent = 0;

  flatbuffers::Offset<wire::ClusterView> view(wire::Builder& b, uint64_t known) {
    if (known == version) return 0;
    ++views_sent;
    std::vector<flatbuffers::Offset<wire::NodeInfo>> infos;
    for (size_t i = 0; i < members.size(); ++i) {
      auto& m = members[i];
      infos.push_back(wire::CreateNodeInfoDirect(b, uint16_t(i), m.id.value, 1, ("node" + std::to_string(m.id.value)).c_str(),
                                                 m.address.c_str(), "", 0, m.state, m.weight));
    }
    return wire::CreateClusterViewDirect(b, version, 1, &infos);
  }

  std::optional<FakeReply> serve(wire::Kind kind, const ByteVector& body) {
    if (silent) return std::nullopt;
    FakeReply reply;
    wire::Builder b;
    if (kind == wire::Kind::open_namespace) {
      auto* request = *wire::parse<wire::OpenNamespace>(body);
      reply.kind = wire::Kind::open_namespace_reply;
      auto v = view(b, request->view_version());
      reply.body = wire::finish(b, wire::CreateOpenNamespaceReply(b, 0, 0, generation, v));
    } else if (kind == wire::Kind::lookup) {
      auto* request = *wire::parse<wire::Lookup>(body);
      reply.kind = wire::Kind::lookup_reply;
      std::vector<wire::Replica> replicas;
      std::vector<uint32_t> lengths;
      uint32_t matched = 0;
      bool stale = request->generation() < generation;
      if (!stale)
        for (auto& id : wire::span_of(request->ids())) {
          uint32_t length = 0;
          for (size_t i = 0; i < members.size(); ++i) {
            if (members[i].state == wire::NodeState::dead) continue;
            auto found = members[i].node->blocks.find(wire::id_of(id));
            if (found == members[i].node->blocks.end()) continue;
            length = uint32_t(found->second.bytes.size());
            replicas.emplace_back(uint32_t(lengths.size()), uint16_t(i), 0, 0);
          }
          if (length == 0 && !request->each()) break;
          lengths.push_back(length);
          matched += length > 0;
        }
      auto v = view(b, request->view_version());
      reply.body = wire::finish(b, wire::CreateLookupReply(b, uint8_t(stale ? Code::stale : Code::ok), generation, matched,
                                                           wire::structs<wire::Replica>(b, replicas), b.CreateVector(lengths), false, v));
    } else if (kind == wire::Kind::report) {
      auto* request = *wire::parse<wire::Report>(body);
      reports.emplace_back(NodeId(request->node_id()), Code(request->code()));
      reply.kind = wire::Kind::report_reply;
      reply.body = wire::finish(b, wire::CreateReportReply(b, 0));
    } else if (kind == wire::Kind::remove) {
      auto* request = *wire::parse<wire::Remove>(body);
      bool stale = request->generation() < generation;
      uint32_t removed = 0;
      if (!stale)
        for (auto& id : wire::span_of(request->ids())) {
          bool had = false;
          for (auto& m : members) had |= m.node->blocks.erase(wire::id_of(id)) > 0;
          removed += had;
        }
      reply.kind = wire::Kind::remove_reply;
      reply.body = wire::finish(b, wire::CreateRemoveReply(b, uint8_t(stale ? Code::stale : Code::ok), generation, removed, 0));
    } else if (kind == wire::Kind::remove_all) {
      ++generation;
      for (auto& m : members) m.node->generation = generation, m.node->blocks.clear();
      reply.kind = wire::Kind::remove_all_reply;
      reply.body = wire::finish(b, wire::CreateRemoveAllReply(b, 0, generation, 0));
    } else if (kind == wire::Kind::explain) {
      reply.kind = wire::Kind::explain_reply;
      reply.body = wire::finish(b, wire::CreateExplainReplyDirect(b, "evicted", 2.5, "node1"));
    } else if (kind == wire::Kind::stat) {
      reply.kind = wire::Kind::stat_reply;
      reply.body = wire::finish(b, wire::CreateStatReplyDirect(b, "{\"nodes\":2}"));
    }
    return reply;
  }
};

// A node in this process.
class HereOwner : public transfer::Owner {
 public:
  std::map<BlockId, ByteVector> blocks;
  bool full = false;
  void read(std::vector<transfer::ReadItem> items, Time, std::function<void(std::vector<transfer::ReadOutcome>)> done) override {
    std::vector<transfer::ReadOutcome> outcomes(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      auto found = blocks.find(items[i].key.id);
      if (found == blocks.end()) continue;
      size_t at = 0;
      for (auto& piece : items[i].target) {
        size_t step = std::min(piece.size(), found->second.size() - at);
        std::copy_n(found->second.begin() + at, step, piece.begin());
        at += step;
      }
      outcomes[i] = {Code::ok, found->second.size()};
    }
    done(std::move(outcomes));
  }
  void write(std::vector<transfer::WriteItem> items, Time, bool, std::function<void(std::vector<transfer::WriteOutcome>)> done) override {
    std::vector<transfer::WriteOutcome> outcomes(items.size());
    for (size_t i = 0; i < items.size(); ++i) {
      outcomes[i].code = full ? Code::no_space : blocks.contains(items[i].key.id) ? Code::exists : Code::ok;
      if (outcomes[i].code != Code::ok) continue;
      auto& bytes = blocks[items[i].key.id];
      for (auto& piece : items[i].source) bytes.insert(bytes.end(), piece.begin(), piece.end());
    }
    done(std::move(outcomes));
  }
  void recheck(std::vector<BlockId> ids, Time, std::function<void(std::vector<Code>)> done) override { done(std::vector<Code>(ids.size())); }
  std::vector<uint64_t> lengths_here(const std::vector<BlockId>& ids) override {
    std::vector<uint64_t> lengths;
    for (auto& id : ids) lengths.push_back(blocks.contains(id) ? blocks[id].size() : 0);
    return lengths;
  }
  const char* transport() const override { return "local"; }
};

class ClientTest : public testing::Test {
 protected:
  ClientTest() {
    for (uint64_t n : {1, 2}) {
      auto address = "node:" + std::to_string(n);
      nodes[n - 1].attach(world, address, NodeId(n), NodeEpoch(1));
      master.members.push_back({&nodes[n - 1], NodeId(n), address});
    }
    world.peer("master:1").serve = [this](wire::Kind kind, const ByteVector& body, const ByteVector&) { return master.serve(kind, body); };
    client = make();
  }
  std::unique_ptr<Client> make(std::shared_ptr<transfer::Owner> local = nullptr, NodeId local_id = {}) {
    return std::make_unique<Client>(Options{.master = "master:1"}, world, metrics, std::move(local), local_id);
  }

  template <typename Answer, typename Call>
  Answer wait(Duration limit, Call call) {
    std::optional<Answer> answer;
    auto deadline = world.now() + limit;
    call(deadline, [&](Answer a) {
      EXPECT_FALSE(answer) << "done ran twice";
      answer.emplace(std::move(a));
    });
    EXPECT_FALSE(answer) << "done ran inside the call";
    EXPECT_TRUE(world.run_until([&] { return answer.has_value(); }));
    EXPECT_LE(world.now(), deadline);
    return *std::move(answer);
  }
  Result<Plan> lookup(std::vector<std::string> keys, Duration limit = seconds(1)) {
    return wait<Result<Plan>>(limit, [&](Time by, auto done) { client->lookup(keys, by, done); });
  }
  Result<Plan> locate(std::vector<std::string> keys, Duration limit = seconds(1)) {
    return wait<Result<Plan>>(limit, [&](Time by, auto done) { client->locate(keys, by, done); });
  }
  std::vector<StoreOutcome> store(std::vector<StoreItem> items, Duration limit = seconds(1)) {
    return wait<std::vector<StoreOutcome>>(limit, [&](Time by, auto done) { client->store(items, by, done); });
  }
  Code put(const std::string& key, const ByteVector& bytes) { return store({{key, {ByteSpan(bytes)}, ""}})[0].code; }
  std::pair<LoadOutcome, ByteVector> get(const std::string& key, size_t room, const Plan* plan = nullptr, Duration limit = seconds(1)) {
    ByteVector target(room);
    std::vector<LoadItem> items{{key, {MutableByteSpan(target)}}};
    auto outcomes = wait<std::vector<LoadOutcome>>(limit, [&](Time by, auto done) {
      plan ? client->load(*plan, items, by, done) : client->load(items, by, done);
    });
    target.resize(outcomes[0].length);
    return {outcomes[0], target};
  }
  // On both nodes: the first replica of a plan is node 1.
  void put_everywhere(const std::string& key, const ByteVector& bytes) {
    for (auto& node : nodes) node.put(hash_key({}, key), bytes);
  }
  double counted(const std::string& name) { return metrics.values()["millpond_client_" + name]; }

  FakeWorld world;
  FakeNode nodes[2];
  FakeMaster master;
  Metrics metrics;
  std::unique_ptr<Client> client;
};

TEST_F(ClientTest, what_is_stored_is_found_and_loaded) {
  auto bytes = some_bytes(200'000, 1);
  std::vector<StoreItem> chain;
  for (int i = 0; i < 5; ++i) chain.push_back({"k" + std::to_string(i), {ByteSpan(bytes).subspan(i * 100, 100'000)}, i ? "k" + std::to_string(i - 1) : ""});
  auto stored = store(chain);
  for (auto& outcome : stored) {
    EXPECT_EQ(outcome.code, Code::ok);
    EXPECT_EQ(outcome.owner, stored[0].owner) << "a chain stays together";
  }
  auto plan = lookup({"k0", "k1", "k2", "nothing", "k4"});
  ASSERT_TRUE(plan);
  EXPECT_EQ(plan->matched, 3u);
  EXPECT_EQ(plan->lengths, (std::vector<uint64_t>{100'000, 100'000, 100'000, 0, 0}));
  auto each = locate({"k0", "nothing", "k4"});
  EXPECT_EQ(each->matched, 2u);
  EXPECT_EQ(each->lengths, (std::vector<uint64_t>{100'000, 0, 100'000}));
  auto [outcome, loaded] = get("k2", 150'000, &*plan);
  EXPECT_EQ(outcome.code, Code::ok);
  EXPECT_EQ(outcome.owner, stored[0].owner);
  EXPECT_STREQ(outcome.transport, "tcp");
  EXPECT_EQ(loaded, ByteVector(bytes.begin() + 200, bytes.begin() + 100'200));
  EXPECT_EQ(get("k4", 100'000).first.code, Code::ok);
  EXPECT_EQ(get("nothing", 100'000).first.code, Code::miss);
  EXPECT_EQ(get("k4", 100'000, &*plan).first.code, Code::miss) << "a plan is not looked up again";
  EXPECT_EQ(master.views_sent, 1);
}

TEST_F(ClientTest, bad_input_is_invalid_each_for_itself) {
  auto bytes = some_bytes(1'000, 1);
  std::vector<ByteSpan> pieces{ByteSpan(bytes)};
  auto stored = store({{"", pieces, ""}, {std::string(4097, 'k'), pieces, ""}, {"empty", {}, ""}, {"zero", {ByteSpan()}, ""}, {"good", pieces, ""}});
  for (int i = 0; i < 4; ++i) EXPECT_EQ(stored[i].code, Code::invalid) << i;
  EXPECT_EQ(stored[4].code, Code::ok);
  // Larger than a block may be: the span is never touched.
  std::vector<ByteSpan> huge(3, ByteSpan(bytes.data(), wire::kBlockBytesMax / 2));
  EXPECT_EQ(store({{"huge", huge, ""}})[0].code, Code::invalid);
  EXPECT_EQ(get("", 10).first.code, Code::invalid);
  EXPECT_EQ(get("good", 0).first.code, Code::invalid);
  auto [small, _] = get("good", 999);
  EXPECT_EQ(small.code, Code::invalid);
  EXPECT_EQ(small.length, 1'000u);
  auto plan = lookup({"good", ""});
  EXPECT_EQ(plan.error().code(), Code::invalid);
  EXPECT_NE(plan.error().message().find("key 1"), std::string::npos);
  EXPECT_EQ(lookup({})->matched, 0u);
  EXPECT_TRUE(store({}).empty());
}

TEST_F(ClientTest, the_same_key_twice_in_one_call) {
  auto a = some_bytes(1'000, 1), b = some_bytes(1'000, 2);
  auto stored = store({{"k", {ByteSpan(a)}, ""}, {"k", {ByteSpan(b)}, ""}});
  EXPECT_EQ(stored[0].code, Code::ok);
  EXPECT_EQ(stored[1].code, Code::exists);
  ByteVector one(1'000), two(1'000);
  std::vector<LoadItem> items{{"k", {MutableByteSpan(one)}}, {"k", {MutableByteSpan(two)}}};
  auto loaded = wait<std::vector<LoadOutcome>>(seconds(1), [&](Time by, auto done) { client->load(items, by, done); });
  EXPECT_EQ(loaded[0].code, Code::ok);
  EXPECT_EQ(loaded[1].code, Code::ok);
  EXPECT_EQ(one, a);
  EXPECT_EQ(two, a);
  EXPECT_EQ(lookup({"k", "k"})->matched, 2u);
  for (auto& node : nodes) node.full = true;
  auto full = store({{"n", {ByteSpan(a)}, ""}, {"n", {ByteSpan(a)}, ""}});
  EXPECT_EQ(full[1].code, Code::no_space);
}

TEST_F(ClientTest, what_a_node_has_already_is_not_sent_as_new) {
  master.members[1].weight = 0;
  auto bytes = some_bytes(1'000, 1);
  EXPECT_EQ(put("k", bytes), Code::ok);
  EXPECT_EQ(put("k", bytes), Code::exists);
}

TEST_F(ClientTest, a_dead_replica_is_reported_put_aside_and_the_next_one_used) {
  auto bytes = some_bytes(1'000, 1);
  put_everywhere("k", bytes);
  world.peer("node:1").down = true;
  auto plan = lookup({"k"});
  ASSERT_EQ(plan->replicas[0].size(), 2u);
  auto [outcome, loaded] = get("k", 1'000, &*plan);
  EXPECT_EQ(outcome.code, Code::ok);
  EXPECT_EQ(outcome.owner, "node2");
  EXPECT_EQ(loaded, bytes);
  world.run_until([&] { return !master.reports.empty(); });
  EXPECT_EQ(master.reports, (std::vector<std::pair<NodeId, Code>>{{NodeId(1), Code::unavailable}}));
  EXPECT_EQ(counted("breaker_opened_total"), 1);
  world.peer("node:1").calls.clear();
  EXPECT_EQ(get("k", 1'000, &*plan).first.code, Code::ok);
  EXPECT_EQ(counted("next_replica_total"), 1) << "put aside: not asked";
  world.peer("node:1").down = false;
  world.pass(seconds(2));
  EXPECT_EQ(get("k", 1'000, &*plan).first.owner, "node1") << "asked again after breaker_open";
}

TEST_F(ClientTest, a_silent_replica_leaves_time_for_the_next) {
  put_everywhere("k", some_bytes(1'000, 1));
  nodes[0].silent = [](wire::Kind) { return true; };
  EXPECT_EQ(get("k", 1'000).first.owner, "node2");
  EXPECT_EQ(counted("next_replica_total"), 1);
}

TEST_F(ClientTest, a_corrupt_replica_is_reported_and_the_next_one_used) {
  put_everywhere("k", some_bytes(1'000, 1));
  nodes[0].blocks.begin()->second.bytes[3] ^= std::byte(1);
  EXPECT_EQ(get("k", 1'000).first.owner, "node2");
  world.run();
  EXPECT_EQ(master.reports.back(), std::pair(NodeId(1), Code::corrupt));
  EXPECT_EQ(nodes[0].rechecked, 1u);
}

TEST_F(ClientTest, an_evicted_replica_is_no_failure) {
  put_everywhere("k", some_bytes(1'000, 1));
  auto plan = lookup({"k"});
  nodes[0].blocks.clear();
  EXPECT_EQ(get("k", 1'000, &*plan).first.owner, "node2");
  nodes[1].blocks.clear();
  EXPECT_EQ(get("k", 1'000, &*plan).first.code, Code::miss);
  EXPECT_TRUE(master.reports.empty());
}

TEST_F(ClientTest, all_replicas_gone_says_why_within_the_deadline) {
  put_everywhere("k", some_bytes(1'000, 1));
  auto plan = lookup({"k"});
  for (auto& node : nodes) node.silent = [](wire::Kind) { return true; };
  EXPECT_EQ(get("k", 1'000, &*plan).first.code, Code::timed_out);
  EXPECT_EQ(get("k", 1'000, &*plan).first.code, Code::unavailable) << "both are put aside now";
}

TEST_F(ClientTest, a_full_node_sends_the_store_to_one_other) {
  auto bytes = some_bytes(1'000, 1);
  nodes[0].full = true;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(put("k" + std::to_string(i), bytes), Code::ok);
  EXPECT_TRUE(nodes[0].blocks.empty());
  nodes[1].full = true;
  EXPECT_EQ(put("full", bytes), Code::no_space);
}

TEST_F(ClientTest, a_dead_node_sends_the_store_to_another_and_is_then_left_alone) {
  auto bytes = some_bytes(1'000, 1);
  world.peer("node:1").down = true;
  for (int i = 0; i < 10; ++i) EXPECT_EQ(put("k" + std::to_string(i), bytes), Code::ok);
  EXPECT_LE(counted("next_node_total"), 1);
  world.peer("node:2").down = true;
  world.pass(seconds(2));
  EXPECT_EQ(put("dead", bytes), Code::unavailable);
}

TEST_F(ClientTest, a_silent_node_ends_the_store_at_the_deadline) {
  for (auto& node : nodes) node.silent = [](wire::Kind) { return true; };
  EXPECT_EQ(put("k", some_bytes(1'000, 1)), Code::timed_out);
}

TEST_F(ClientTest, nodes_of_weight_nothing_or_not_alive_get_nothing) {
  master.members[0].weight = 0;
  master.members[1].state = wire::NodeState::suspect;
  EXPECT_EQ(put("k", some_bytes(1'000, 1)), Code::unavailable);
}

TEST_F(ClientTest, a_wiped_namespace_is_hashed_again) {
  auto bytes = some_bytes(1'000, 1);
  EXPECT_EQ(put("k", bytes), Code::ok);
  // Another client wipes.
  master.generation = 3;
  for (auto& node : nodes) node.generation = 3, node.blocks.clear();
  EXPECT_EQ(put("k", bytes), Code::ok);
  EXPECT_EQ(counted("stale_total"), 1);
  bool under_new_id = nodes[0].blocks.contains(hash_key({.generation = 3}, "k").id) || nodes[1].blocks.contains(hash_key({.generation = 3}, "k").id);
  EXPECT_TRUE(under_new_id);
  auto other = make();
  std::swap(client, other);
  EXPECT_EQ(lookup({"k"})->matched, 1u) << "learned from the master";
  EXPECT_EQ(counted("stale_total"), 2);
  // And this client wipes.
  auto status = wait<Status>(seconds(1), [&](Time by, auto done) { client->remove_all(by, done); });
  EXPECT_TRUE(status.ok());
  EXPECT_EQ(lookup({"k"})->matched, 0u);
  EXPECT_EQ(put("k", bytes), Code::ok);
}

TEST_F(ClientTest, remove_counts_each_key_once_and_hashes_again) {
  auto bytes = some_bytes(1'000, 1);
  master.generation = 2;
  for (auto& node : nodes) node.generation = 2;
  put("a", bytes), put("b", bytes);
  auto other = make();
  std::swap(client, other);
  auto removed = wait<Result<size_t>>(seconds(1), [&](Time by, auto done) { client->remove({"a", "b", "a", "never"}, by, done); });
  EXPECT_EQ(*removed, 2u);
  EXPECT_EQ(lookup({"a"})->matched, 0u);
  auto bad = wait<Result<size_t>>(seconds(1), [&](Time by, auto done) { client->remove({"a", ""}, by, done); });
  EXPECT_EQ(bad.error().code(), Code::invalid);
}

TEST_F(ClientTest, a_silent_master_costs_one_deadline_then_lookups_fail_at_once) {
  lookup({"k"});
  master.silent = true;
  EXPECT_EQ(lookup({"k"}, milliseconds(100)).error().code(), Code::timed_out);
  auto before = world.now();
  EXPECT_EQ(lookup({"k"}, milliseconds(100)).error().code(), Code::unavailable);
  EXPECT_EQ(world.now(), before);
  EXPECT_EQ(get("k", 10).first.code, Code::unavailable);
  EXPECT_EQ(put("k", some_bytes(100, 1)), Code::ok) << "nodes known from before still take blocks";
  master.silent = false;
  world.pass(seconds(2));
  EXPECT_EQ(lookup({"k"})->matched, 1u);
}

// A master's host that vanished leaves a connection that looks open: the first call on it breaks it.
TEST_F(ClientTest, a_connection_that_breaks_costs_no_lookup) {
  put_everywhere("k", some_bytes(1'000, 1));
  int broken = 1;
  world.peer("master:1").serve = [&](wire::Kind kind, const ByteVector& body, const ByteVector&) -> std::optional<FakeReply> {
    if (broken-- > 0) return FakeReply{.failure = Status(Code::unavailable, "the connection broke")};
    return master.serve(kind, body);
  };
  EXPECT_EQ(lookup({"k"})->matched, 1u);
  broken = 2;   // nobody there: not asked for ever
  EXPECT_EQ(lookup({"k"}).error().code(), Code::unavailable);
}

TEST_F(ClientTest, a_writer_that_never_looks_up_hears_of_new_nodes) {
  master.members[0].weight = master.members[1].weight = 0;
  EXPECT_EQ(put("k", some_bytes(1'000, 1)), Code::unavailable);
  master.members[1].weight = 100;
  ++master.version;
  EXPECT_EQ(put("k", some_bytes(1'000, 1)), Code::ok);
}

TEST_F(ClientTest, a_deadline_too_short_to_answer_in_puts_nobody_aside) {
  put_everywhere("k", some_bytes(1'000, 1));
  EXPECT_FALSE(lookup({"k"}, std::chrono::microseconds(5)));
  EXPECT_EQ(lookup({"k"})->matched, 1u);
}

TEST_F(ClientTest, the_node_in_this_process_comes_first_and_works_without_the_master) {
  auto here = std::make_shared<HereOwner>();
  client = make(here, NodeId(9));
  auto bytes = some_bytes(1'000, 1);
  EXPECT_EQ(store({{"a", {ByteSpan(bytes)}, ""}})[0].code, Code::ok);
  EXPECT_EQ(here->blocks.size(), 1u);
  nodes[0].put(hash_key({}, "b"), some_bytes(500, 2));
  auto plan = lookup({"a", "b", "c"});
  EXPECT_EQ(plan->matched, 2u);
  EXPECT_EQ(get("a", 1'000, &*plan).first.transport, std::string("local"));
  EXPECT_EQ(get("b", 1'000, &*plan).first.owner, "node1");
  here->full = true;
  EXPECT_EQ(put("d", bytes), Code::ok) << "no room here: one other node";
  EXPECT_EQ(here->blocks.size(), 1u);
  // Whole answers need no message.
  int asked = world.peer("master:1").calls[wire::Kind::lookup];
  EXPECT_EQ(lookup({"a"})->matched, 1u);
  EXPECT_EQ(world.peer("master:1").calls[wire::Kind::lookup], asked);
  master.silent = true;
  EXPECT_EQ(lookup({"a", "b"}, milliseconds(100))->matched, 1u);
  EXPECT_EQ(get("a", 1'000).first.code, Code::ok);
  EXPECT_FALSE(lookup({"b"}, milliseconds(100)));
}

TEST_F(ClientTest, destroyed_under_calls_they_end_with_unavailable) {
  put_everywhere("k", some_bytes(1'000, 1));
  lookup({"k"});
  for (auto& node : nodes) node.silent = [](wire::Kind) { return true; };
  master.silent = true;
  ByteVector target(1'000), bytes(10);
  std::optional<Code> looked, loaded, stored;
  Plan plan{.matched = 1, .keys = {"k"}, .lengths = {1'000}, .replicas = {{{NodeId(1)}, {NodeId(2)}}}};
  auto by = world.now() + seconds(100);
  client->lookup({"k"}, by, [&](auto r) { looked = r.error().code(); });
  client->load(plan, {{"k", {MutableByteSpan(target)}}}, by, [&](auto r) { loaded = r[0].code; });
  client->store({{"s", {ByteSpan(bytes)}, ""}}, by, [&](auto r) { stored = r[0].code; });
  world.pass(milliseconds(1));
  auto timer = world.after(milliseconds(1), [&] { client.reset(); });
  world.run_until([&] { return looked && loaded && stored; });
  EXPECT_LT(world.now(), by - seconds(90));
  EXPECT_EQ(looked, Code::unavailable);
  EXPECT_EQ(loaded, Code::unavailable);
  EXPECT_EQ(stored, Code::unavailable);
}

TEST_F(ClientTest, nobody_at_the_address) {
  world.peer("master:1").down = true;
  auto status = wait<Status>(seconds(1), [&](Time by, auto done) { client->open(by, done); });
  EXPECT_EQ(status.code(), Code::unavailable);
  EXPECT_EQ(put("k", some_bytes(10, 1)), Code::unavailable);
}

TEST_F(ClientTest, many_keys_are_asked_in_bounded_messages) {
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < wire::kIdsPerMessageMax + 10; ++i) keys.push_back(std::to_string(i));
  auto bytes = some_bytes(10, 1);
  for (auto& key : keys) nodes[0].put(hash_key({}, key), bytes);
  EXPECT_EQ(lookup(keys)->matched, keys.size());
  nodes[0].blocks.erase(hash_key({}, keys[3]).id);
  EXPECT_EQ(lookup(keys)->matched, 3u);
  EXPECT_EQ(locate(keys)->matched, keys.size() - 1);
}

TEST_F(ClientTest, hostile_answers_are_an_error) {
  auto answer = [&](std::vector<wire::Replica> replicas, std::vector<uint32_t> lengths, uint32_t matched) {
    world.peer("master:1").serve = [=](wire::Kind, const ByteVector&, const ByteVector&) {
      wire::Builder b;
      FakeReply reply{.kind = wire::Kind::lookup_reply};
      reply.body = wire::finish(b, wire::CreateLookupReply(b, 0, 0, matched, wire::structs<wire::Replica>(b, replicas), b.CreateVector(lengths)));
      return std::optional(reply);
    };
    return lookup({"a", "b"});
  };
  EXPECT_EQ(answer({{7, 0, 0, 0}}, {10}, 1).error().code(), Code::corrupt);
  EXPECT_EQ(answer({}, {1, 2, 3}, 3).error().code(), Code::corrupt);
  EXPECT_EQ(answer({}, {1}, 2).error().code(), Code::corrupt);
  EXPECT_EQ(answer({{0, 99, 0, 0}}, {10}, 1)->matched, 0u) << "at a node that is not in the view";
}

TEST_F(ClientTest, explain_and_stat_pass_on) {
  auto words = wait<Result<std::string>>(seconds(1), [&](Time by, auto done) { client->explain("k", by, done); });
  EXPECT_EQ(*words, "evicted at node node1, 2.5 s ago");
  auto json = wait<Result<std::string>>(seconds(1), [&](Time by, auto done) { client->stat(by, done); });
  EXPECT_EQ(*json, "{\"nodes\":2}");
}

}  // namespace
}  // namespace millpond::client
