// Goal: the master's shell does what docs/design/protocol.md says, message by message.
// Method: a runtime of virtual time with scripted peers; requests and replies are real messages.
#include "master/master.h"

#include <gtest/gtest.h>

#include <deque>
#include <map>

#include "base/reached.h"
#include "master/codec.h"
#include "master/touch_queue.h"
#include "wire/frame.h"

namespace millpond::master {
namespace {
using std::chrono::milliseconds;
using std::chrono::seconds;

class FakeRuntime : public rpc::Runtime {
 public:
  // What a node at an address answers; an error is the call's error; std::nullopt: never (the call times out).
  using Peer = std::function<std::optional<Result<rpc::Reply>>(const rpc::Message&)>;

  FakeRuntime() { identity_.role = uint8_t(wire::Role::master), identity_.master_term = MasterTerm(7); }
  Time now() const override { return now_; }
  uint64_t random() override { return 4; }
  void post(std::function<void()> task) override { add(now_, std::move(task)); }
  std::shared_ptr<void> after(Duration delay, std::function<void()> task) override {
    auto alive = std::make_shared<int>(0);
    add(now_ + delay, [weak = std::weak_ptr(alive), task = std::move(task)] {
      if (weak.lock()) task();
    });
    return alive;
  }
  std::shared_ptr<rpc::Channel> channel(rpc::PeerAddress to) override;
  Result<std::string> listen(rpc::ListenOptions options, rpc::Service* given) override {
    if (listen_error) return error(Code::invalid, "port in use");
    service = given;
    return options.address;
  }
  const rpc::Identity& identity() const override { return identity_; }

  void add(Time at, std::function<void()> task) { tasks_.emplace(at, std::move(task)); }
  void run_until(Time end) {
    while (!tasks_.empty() && tasks_.begin()->first <= end) {
      auto task = std::move(tasks_.begin()->second);
      now_ = std::max(now_, tasks_.begin()->first);
      tasks_.erase(tasks_.begin());
      task();
    }
    now_ = std::max(now_, end);
  }
  void run_for(Duration duration) { run_until(now_ + duration); }
  void stand_still(Duration duration) { now_ = now_ + duration; }

  std::map<std::string, Peer> peers;
  rpc::Service* service = nullptr;
  bool listen_error = false;
  rpc::Identity identity_;

 private:
  Time now_{seconds(100)};
  std::multimap<Time, std::function<void()>> tasks_;
};

class FakeChannel : public rpc::Channel {
 public:
  FakeChannel(FakeRuntime& runtime, std::string address) : runtime_(runtime), address_(std::move(address)) {}
  void call(rpc::Message request, Time deadline, rpc::LandReply, rpc::Done done) override {
    runtime_.post([&runtime = runtime_, address = address_, request = std::move(request), deadline, done = std::move(done)] {
      auto peer = runtime.peers.find(address);
      std::optional<Result<rpc::Reply>> reply = error(Code::unavailable, "nobody at {}", address);
      if (peer != runtime.peers.end()) reply = peer->second(request);
      if (reply)
        done(std::move(*reply));
      else
        runtime.add(deadline, [done] { done(error(Code::timed_out, "no answer")); });
    });
  }

 private:
  FakeRuntime& runtime_;
  std::string address_;
};
std::shared_ptr<rpc::Channel> FakeRuntime::channel(rpc::PeerAddress to) { return std::make_shared<FakeChannel>(*this, to.address); }

BlockId block(uint64_t n) { return {.high = n, .low = n, .namespace_id = Namespace{}.id().value}; }
std::vector<BlockId> blocks(uint64_t from, uint64_t to) {
  std::vector<BlockId> ids;
  for (uint64_t n = from; n < to; ++n) ids.push_back(block(n));
  return ids;
}

struct Reply {
  bool here = false;
  wire::Kind kind = wire::Kind::none;
  ByteVector body;
  Status failure;
  template <typename Table>
  const Table* as() const {
    EXPECT_TRUE(here) << "not answered";
    EXPECT_TRUE(failure.ok()) << failure.text();
    return flatbuffers::GetRoot<Table>(body.data());
  }
};

struct Rig {
  FakeRuntime runtime;
  Metrics metrics;
  Options options;
  std::unique_ptr<Master> master;

  explicit Rig(Options given = {}) : options(std::move(given)) {
    auto started = Master::start(options, runtime, metrics);
    EXPECT_TRUE(started.has_value()) << started.error().text();
    master = std::move(*started);
  }

  struct Box : rpc::Responder {
    std::shared_ptr<Reply> reply;
    void answer(rpc::Message m) override {
      EXPECT_FALSE(reply->here) << "answered twice";
      reply->here = true;
      reply->kind = m.kind;
      reply->body = std::move(m.body);
      if (m.kind == wire::Kind::failure) reply->failure = wire::failure_status(reply->body);
    }
  };
  std::shared_ptr<Reply> send(wire::Kind kind, ByteVector body, Duration limit = seconds(1), ConnectionId connection = ConnectionId(1)) {
    auto box = std::make_shared<Box>();
    box->reply = std::make_shared<Reply>();
    rpc::Request request{.kind = kind, .body = std::move(body), .deadline = runtime.now() + limit};
    request.caller.connection = connection;
    auto reply = box->reply;
    runtime.service->serve(std::move(request), box);
    return reply;
  }

  struct Node {
    uint64_t id, epoch = 1;
    uint64_t sequence = 1, round = 0, removal_last = 0;
    uint16_t index = 0;
    std::string address() const { return "node" + std::to_string(id) + ":1"; }
    std::vector<RemovalRecord> applied;
    std::vector<TouchedRun> touched;
  };
  // A node that applies removals and takes touches.
  void serve(Node& node) {
    runtime.peers[node.address()] = [&node](const rpc::Message& message) -> std::optional<Result<rpc::Reply>> {
      wire::Builder b;
      if (message.kind == wire::Kind::touch) {
        auto runs = *taken<TouchedRun>(flatbuffers::GetRoot<wire::Touch>(message.body.data())->runs(), "runs");
        node.touched.insert(node.touched.end(), runs.begin(), runs.end());
        return rpc::Reply{.kind = wire::Kind::touch_reply, .body = wire::finish(b, wire::CreateTouchReply(b, 0))};
      }
      auto* push = flatbuffers::GetRoot<wire::ApplyRemovals>(message.body.data());
      auto records = *taken<RemovalRecord>(push->removals(), "removals");
      if (push->after() == node.removal_last)
        for (auto& r : records) node.applied.push_back(r), node.removal_last = r.number;
      return rpc::Reply{.kind = wire::Kind::apply_removals_reply, .body = wire::finish(b, wire::CreateApplyRemovalsReply(b, 0, node.removal_last))};
    };
  }
  std::shared_ptr<Reply> send_join(Node& node, ConnectionId connection = ConnectionId(1)) {
    wire::Builder b;
    auto name = b.CreateString("n" + std::to_string(node.id)), address = b.CreateString(node.address()), socket = b.CreateString("");
    auto tail = given<wire::Removal>(b, node.applied);
    auto reply = send(wire::Kind::join,
                      wire::finish(b, wire::CreateJoin(b, node.id, node.epoch, name, address, socket, 1, 1 << 30, 0, 1 << 30, ~0ull, 3'600'000, 0,
                                                       node.removal_last, tail)),
                      seconds(1), connection);
    auto* joined = reply->as<wire::JoinReply>();
    if (joined->code()) return reply;
    auto missed = *taken<RemovalRecord>(joined->removals(), "removals");
    for (auto& r : missed) node.applied.push_back(r), node.removal_last = r.number;
    node.round = joined->inventory_round();
    node.index = joined->index();
    node.sequence = 1;
    return reply;
  }
  void join(Node& node, bool complete = true, ConnectionId connection = ConnectionId(1)) {
    serve(node);
    send_join(node, connection);
    if (complete) advertise(node, {}, true);
  }
  std::vector<int> advertise(Node& node, std::vector<AdvertItem> items, bool complete = false, std::optional<uint64_t> sequence = {},
                             std::optional<uint64_t> seen = {}, std::optional<uint64_t> term = {}) {
    wire::Builder b;
    auto list = given<wire::Advert>(b, items);
    auto reply = send(wire::Kind::advertise,
                      wire::finish(b, wire::CreateAdvertise(b, node.id, node.epoch, term.value_or(7), sequence.value_or(node.sequence), list,
                                                            seen.value_or(node.removal_last), uint32_t(node.round), complete)));
    auto* answered = reply->as<wire::AdvertiseReply>();
    if (answered->code()) return {-int(answered->code())};
    node.sequence = answered->acked() + 1;
    std::vector<int> answers;
    for (uint8_t a : wire::span_of(answered->answers())) answers.push_back(a);
    return answers;
  }
  static AdvertItem add(uint64_t n, uint64_t root = 5) { return {.id = block(n), .root = root, .length = 100}; }
  std::vector<int> store(Node& node, uint64_t from, uint64_t to) {
    std::vector<AdvertItem> items;
    for (uint64_t n = from; n < to; ++n) items.push_back(add(n));
    return advertise(node, items);
  }
  Code beat(Node& node, ConnectionId connection = ConnectionId(1)) {
    wire::Builder b;
    auto reply = send(wire::Kind::heartbeat, wire::finish(b, wire::CreateHeartbeat(b, node.id, node.epoch, 0, 1 << 30, ~0ull, node.removal_last, 0)), seconds(1), connection);
    return Code(reply->as<wire::HeartbeatReply>()->code());
  }
  void live(Duration duration, std::vector<Node*> nodes) {
    for (Time end = runtime.now() + duration; runtime.now() < end;) {
      runtime.run_for(milliseconds(500));
      for (Node* node : nodes) beat(*node);
    }
  }
  std::shared_ptr<Reply> send_lookup(const std::vector<BlockId>& ids, bool each = false, bool touch = true, uint64_t version = 0, uint32_t generation = 0) {
    wire::Builder b;
    auto list = wire::ids(b, ids);
    return send(wire::Kind::lookup, wire::finish(b, wire::CreateLookup(b, generation, list, version, each, touch)));
  }
  uint32_t matched(const std::vector<BlockId>& ids, bool each = false) { return send_lookup(ids, each)->as<wire::LookupReply>()->matched(); }
  std::shared_ptr<Reply> send_remove(const std::vector<BlockId>& ids, Duration limit = seconds(1), uint32_t generation = 0) {
    wire::Builder b;
    auto list = wire::ids(b, ids);
    return send(wire::Kind::remove, wire::finish(b, wire::CreateRemove(b, generation, list)), limit);
  }
  std::string explain(uint64_t n) {
    wire::Builder b;
    wire::Id id = wire::id_of(block(n));
    auto reply = send(wire::Kind::explain, wire::finish(b, wire::CreateExplain(b, &id)));
    auto* explained = reply->as<wire::ExplainReply>();
    std::string node(wire::text_of(explained->node()));
    return std::string(wire::text_of(explained->reason())) + (node.empty() ? "" : " by " + node);
  }
};
using Node = Rig::Node;
using Ints = std::vector<int>;

TEST(Master, refuses_options_and_terms_that_cannot_work) {
  FakeRuntime runtime;
  Metrics metrics;
  auto code = [&](Options o) {
    auto started = Master::start(std::move(o), runtime, metrics);
    return started ? Code::ok : started.error().code();
  };
  EXPECT_EQ(code({.suspect_after = milliseconds(900)}), Code::invalid);
  EXPECT_EQ(code({.dead_after = seconds(2)}), Code::invalid);
  EXPECT_EQ(code({.removals_kept = 0}), Code::invalid);
  runtime.identity_.master_term = MasterTerm(1'700'000'000'000'000'000);
  EXPECT_EQ(code({}), Code::invalid);
  runtime.identity_.master_term = MasterTerm(7);
  runtime.listen_error = true;
  EXPECT_EQ(code({}), Code::invalid);
}

TEST(Master, a_block_is_found_as_soon_as_it_was_advertised) {
  Rig rig;
  Node a{1}, b{2};
  rig.join(a), rig.join(b);
  EXPECT_EQ(rig.store(a, 0, 3), (Ints{0, 0, 0}));
  EXPECT_EQ(rig.store(b, 2, 5), (Ints{1, 0, 0}));
  auto reply = rig.send_lookup(blocks(0, 10));
  auto* found = reply->as<wire::LookupReply>();
  EXPECT_EQ(found->matched(), 5u);
  EXPECT_EQ(found->lengths()->size(), 5u);
  ASSERT_EQ(found->replicas()->size(), 6u);
  EXPECT_EQ(found->replicas()->Get(3)->node(), b.index);
  ASSERT_NE(found->view(), nullptr);
  ASSERT_EQ(found->view()->nodes()->size(), 2u);
  auto* row = found->view()->nodes()->Get(0);
  EXPECT_EQ(row->address()->str(), a.address());
  EXPECT_GT(row->weight(), 0u);
  EXPECT_EQ(found->view()->term(), 7u);
  auto again = rig.send_lookup(blocks(0, 10), false, true, found->view()->version());
  EXPECT_EQ(again->as<wire::LookupReply>()->view(), nullptr);
  EXPECT_EQ(rig.matched(blocks(3, 12), true), 2u);
}

TEST(Master, a_repeated_batch_gets_the_same_answer_and_a_gap_is_stale) {
  Rig rig;
  Node a{1}, b{2};
  rig.join(a), rig.join(b);
  EXPECT_EQ(rig.store(b, 0, 1), Ints{0});
  EXPECT_EQ(rig.advertise(a, {Rig::add(0), Rig::add(1)}), (Ints{1, 0}));
  rig.advertise(b, {{.id = block(0), .kind = AdvertKind::evict}});
  EXPECT_EQ(rig.advertise(a, {Rig::add(0), Rig::add(1)}, false, 1), (Ints{1, 0})) << "as before, though it would be first now";
  EXPECT_EQ(rig.advertise(a, {Rig::add(2)}, false, 9), Ints{-int(Code::stale)});
  EXPECT_EQ(rig.advertise(a, {Rig::add(2)}, false, {}, {}, 6), Ints{-int(Code::stale)}) << "another term";
  EXPECT_EQ(rig.store(a, 2, 3), Ints{0});
  a.round += 1;
  EXPECT_EQ(rig.store(a, 3, 4), Ints{-int(Code::stale)}) << "another round";
  Node stranger{9};
  EXPECT_EQ(rig.store(stranger, 3, 4), Ints{-int(Code::stale)});
  EXPECT_EQ(rig.beat(stranger), Code::stale);
}

TEST(Master, a_new_inventory_voids_what_it_does_not_name) {
  Rig rig;
  Node a{1};
  rig.join(a);
  rig.store(a, 0, 3);
  rig.join(a, false);
  EXPECT_EQ(rig.matched(blocks(0, 3)), 3u) << "until the inventory is complete";
  AdvertItem item = Rig::add(0);
  item.kind = AdvertKind::inventory;
  EXPECT_EQ(rig.advertise(a, {item}, true), Ints{0});
  EXPECT_EQ(rig.matched(blocks(0, 3)), 1u);
}

TEST(Master, is_warming_until_all_inventories_are_in) {
  Rig rig;
  auto warming = [&] { return rig.send_lookup(blocks(0, 1))->as<wire::LookupReply>()->warming(); };
  EXPECT_TRUE(warming()) << "just started: who will come is not known";
  Node a{1};
  rig.join(a, false);
  rig.live(seconds(5), {&a});
  EXPECT_TRUE(warming());
  rig.advertise(a, {}, true);
  EXPECT_FALSE(warming());
  EXPECT_NE(rig.explain(1).find("never seen"), std::string::npos);
}

TEST(Master, a_silent_node_is_skipped_and_counts_again_when_it_speaks) {
  Rig rig;
  Node a{1}, b{2};
  rig.join(a), rig.join(b);
  rig.store(a, 0, 2);
  rig.live(seconds(12), {&b});
  EXPECT_EQ(rig.matched(blocks(0, 2)), 0u);
  EXPECT_NE(rig.explain(0).find("dead"), std::string::npos);
  EXPECT_NE(rig.master->state_json().find("\"state\":\"dead\""), std::string::npos);
  EXPECT_EQ(rig.beat(a), Code::ok);
  EXPECT_EQ(rig.matched(blocks(0, 2)), 2u);
  rig.live(seconds(100), {&b});
  EXPECT_EQ(rig.beat(a), Code::stale) << "swept: it joins again";
  EXPECT_EQ(rig.explain(0), "owner lost by 0000000000000001");
}

TEST(Master, a_dead_node_with_other_bytes_must_join_before_it_counts) {
  Rig rig;
  Node a{1}, b{2};
  rig.join(a), rig.join(b);
  rig.store(a, 0, 2);
  rig.live(seconds(12), {&b});
  EXPECT_EQ(rig.advertise(b, {Rig::add(0, 99)}), Ints{0});
  EXPECT_EQ(rig.beat(a), Code::stale);
  EXPECT_EQ(rig.store(a, 5, 6), Ints{-int(Code::stale)});
  EXPECT_EQ(rig.matched(blocks(1, 2)), 0u);
  rig.join(a, false);
  EXPECT_EQ(rig.advertise(a, {Rig::add(0), Rig::add(1)}, true), (Ints{2, 0})) << "refused, first";
}

TEST(Master, a_lost_connection_makes_suspect_and_a_later_epoch_voids) {
  Rig rig;
  Node a{1};
  rig.join(a, true, ConnectionId(5));
  rig.store(a, 0, 2);
  rig.runtime.service->closed(ConnectionId(77));
  rig.runtime.service->closed(ConnectionId(5));
  EXPECT_NE(rig.master->state_json().find("\"state\":\"suspect\""), std::string::npos);
  EXPECT_EQ(rig.matched(blocks(0, 2)), 2u) << "a suspect's replicas are still offered";
  Node next{1, 2};
  rig.join(next, false);
  EXPECT_EQ(rig.matched(blocks(0, 2)), 0u);
  EXPECT_EQ(Code(rig.send_join(a)->as<wire::JoinReply>()->code()), Code::stale) << "the earlier boot";
}

TEST(Master, remove_waits_for_live_nodes_and_says_who_did_not_confirm) {
  Rig rig;
  Node a{1}, b{2};
  rig.join(a), rig.join(b);
  rig.store(a, 0, 3);
  auto reply = rig.send_remove(blocks(0, 2));
  EXPECT_FALSE(reply->here);
  EXPECT_EQ(rig.matched(blocks(0, 1)), 0u) << "gone from the directory at once";
  rig.runtime.run_for(milliseconds(10));
  EXPECT_EQ(reply->as<wire::RemoveReply>()->removed(), 2u);
  EXPECT_EQ(reply->as<wire::RemoveReply>()->unconfirmed_nodes(), 0u);
  EXPECT_EQ(a.applied.size(), 2u);
  EXPECT_EQ(b.applied.size(), 2u);
  EXPECT_EQ(rig.explain(0), "removed");

  rig.runtime.peers[b.address()] = [](auto&) { return std::optional<Result<rpc::Reply>>(); };   // accepts, never answers
  reply = rig.send_remove(blocks(2, 3), seconds(10));
  rig.runtime.run_for(milliseconds(499));
  EXPECT_FALSE(reply->here);
  rig.runtime.run_for(milliseconds(2));
  EXPECT_EQ(reply->as<wire::RemoveReply>()->unconfirmed_nodes(), 1u);
  reply = rig.send_remove(blocks(2, 3), milliseconds(100));
  rig.runtime.run_for(milliseconds(99));
  EXPECT_TRUE(reply->here) << "before the caller's own deadline";
  rig.serve(b);
  rig.live(seconds(2), {&a, &b});
  EXPECT_EQ(b.applied.size(), 4u) << "a heartbeat showed that it was behind";
  EXPECT_EQ(rig.store(a, 0, 1), Ints{0}) << "stored again after the removal";
}

TEST(Master, a_store_that_crosses_a_removal_is_answered_removed) {
  Rig rig;
  Node a{1};
  rig.join(a);
  rig.runtime.run_for(seconds(1));
  uint64_t seen = a.removal_last;
  rig.send_remove(blocks(0, 1));
  EXPECT_EQ(rig.advertise(a, {Rig::add(0), Rig::add(1)}, false, {}, seen), (Ints{3, 0}));
  EXPECT_EQ(rig.matched(blocks(0, 1)), 0u);
}

TEST(Master, a_node_that_was_away_gets_what_it_missed_with_its_join) {
  Rig rig;
  Node a{1}, b{2};
  rig.join(a), rig.join(b);
  rig.runtime.peers.erase(b.address());
  rig.live(seconds(12), {&a});
  auto reply = rig.send_remove(blocks(0, 2));
  rig.runtime.run_for(milliseconds(10));
  EXPECT_EQ(reply->as<wire::RemoveReply>()->unconfirmed_nodes(), 0u) << "the dead are not waited for";
  rig.join(b);
  EXPECT_EQ(b.applied.size(), 2u);
}

TEST(Master, a_node_beyond_the_log_is_told_which_namespaces_to_drop) {
  Rig rig({.removals_kept = 10});
  Node a{1}, b{2};
  rig.join(a), rig.join(b);
  rig.runtime.peers.erase(b.address());
  for (uint64_t n = 0; n < 30; n += 5) {
    rig.send_remove(blocks(n, n + 5));
    rig.live(seconds(3), {&a, &b});        // b lives but cannot be pushed to
  }
  EXPECT_EQ(a.applied.size(), 30u);
  EXPECT_EQ(rig.beat(b), Code::stale);
  auto reply = rig.send_join(b);
  auto* joined = reply->as<wire::JoinReply>();
  EXPECT_FALSE(joined->removals_reach_back());
  ASSERT_EQ(joined->drop_namespaces()->size(), 1u);
  EXPECT_EQ(joined->drop_namespaces()->Get(0), Namespace{}.id().value);
  EXPECT_EQ(b.removal_last, a.removal_last);
  auto all = rig.send_remove(blocks(0, 11));
  EXPECT_EQ(all->failure.code(), Code::invalid) << "more than the log holds";
}

TEST(Master, removes_are_put_off_while_a_node_catches_up) {
  Rig rig({.removals_kept = 10});
  Node a{1};
  rig.join(a);
  rig.runtime.run_for(seconds(1));
  rig.beat(a);
  rig.send_remove(blocks(0, 8));
  EXPECT_EQ(rig.send_remove(blocks(0, 8))->failure.code(), Code::overloaded);
  rig.runtime.run_for(milliseconds(1));
  EXPECT_TRUE(rig.send_remove(blocks(0, 8))->failure.ok());
}

TEST(Master, remove_all_raises_the_generation) {
  Rig rig;
  Node a{1};
  rig.join(a);
  wire::Builder b;
  auto tenant = b.CreateString("default"), name = b.CreateString("default");
  auto reply = rig.send(wire::Kind::remove_all, wire::finish(b, wire::CreateRemoveAll(b, tenant, name, 4)));
  rig.runtime.run_for(milliseconds(500));
  EXPECT_EQ(reply->as<wire::RemoveAllReply>()->generation(), 5u);
  ASSERT_EQ(a.applied.size(), 1u);
  EXPECT_EQ(a.applied[0].kind, RemovalKind::namespace_wiped);
  auto looked = rig.send_lookup(blocks(0, 1));
  EXPECT_EQ(Code(looked->as<wire::LookupReply>()->code()), Code::stale);
  EXPECT_EQ(looked->as<wire::LookupReply>()->generation(), 5u);
  EXPECT_EQ(Code(rig.send_remove(blocks(0, 1))->as<wire::RemoveReply>()->code()), Code::stale);
  EXPECT_EQ(Code(rig.send_lookup(blocks(0, 1), false, true, 0, 5)->as<wire::LookupReply>()->code()), Code::ok);
  wire::Builder c;
  auto t = c.CreateString("default"), n = c.CreateString("default");
  auto opened = rig.send(wire::Kind::open_namespace, wire::finish(c, wire::CreateOpenNamespace(c, t, n, 0)));
  EXPECT_EQ(opened->as<wire::OpenNamespaceReply>()->generation(), 5u);
  EXPECT_NE(opened->as<wire::OpenNamespaceReply>()->view(), nullptr);
}

TEST(Master, nodes_hear_of_runs_in_batches) {
  Rig rig;
  Node a{1}, b{2};
  rig.join(a), rig.join(b);
  rig.store(a, 0, 4);
  rig.store(b, 4, 6);
  rig.matched(blocks(0, 6));
  rig.matched(blocks(0, 6));
  rig.send_lookup(blocks(0, 2), false, false);
  EXPECT_TRUE(a.touched.empty());
  rig.runtime.run_for(milliseconds(6));
  ASSERT_EQ(a.touched.size(), 1u);
  EXPECT_EQ(a.touched[0].id, block(3));
  EXPECT_EQ(a.touched[0].length, 4u);
  ASSERT_EQ(b.touched.size(), 1u);
  EXPECT_EQ(b.touched[0].length, 2u);
}

TEST(Master, a_report_is_believed_only_when_we_cannot_reach_the_node_either) {
  Rig rig;
  Node a{1};
  rig.join(a);
  auto report = [&](uint64_t id) {
    wire::Builder b;
    auto reply = rig.send(wire::Kind::report, wire::finish(b, wire::CreateReport(b, id, 1, uint8_t(Code::unavailable))));
    rig.runtime.run_for(milliseconds(10));
    return Code(reply->as<wire::ReportReply>()->code());
  };
  EXPECT_EQ(report(1), Code::ok);
  EXPECT_EQ(rig.master->state_json().find("suspect\","), std::string::npos);
  rig.runtime.peers.erase(a.address());
  report(1);
  EXPECT_NE(rig.master->state_json().find("\"state\":\"suspect\""), std::string::npos);
  EXPECT_EQ(report(55), Code::stale);
  EXPECT_EQ(rig.metrics.values().at("millpond_master_reports_total"), 3);
}

TEST(Master, a_pause_of_the_master_kills_nobody) {
  Rig rig;
  Node a{1};
  rig.join(a);
  rig.store(a, 0, 2);
  rig.live(seconds(2), {&a});
  rig.runtime.stand_still(seconds(15));
  rig.runtime.run_for(milliseconds(1));
  EXPECT_EQ(rig.matched(blocks(0, 2)), 2u);
  EXPECT_NE(rig.master->state_json().find("\"state\":\"alive\""), std::string::npos);
}

TEST(Master, explains_an_eviction) {
  Rig rig;
  Node a{1};
  rig.join(a);
  rig.store(a, 0, 2);
  EXPECT_EQ(rig.explain(0), "present by n1");
  rig.advertise(a, {{.id = block(0), .kind = AdvertKind::evict}, {.id = block(1), .kind = AdvertKind::drop, .reason = 3}});
  EXPECT_EQ(rig.explain(0), "evicted by n1");
  EXPECT_NE(rig.explain(1).find("did not verify"), std::string::npos);
}

TEST(Master, a_join_from_a_later_masters_cluster_is_refused) {
  Rig rig;
  Node a{1};
  a.removal_last = 9ull << 20;
  auto reply = rig.send_join(a);
  EXPECT_EQ(Code(reply->as<wire::JoinReply>()->code()), Code::stale);
  EXPECT_NE(reply->as<wire::JoinReply>()->reason()->str().find("later"), std::string::npos);
}

TEST(Master, bad_requests_are_told_what_is_wrong_with_them) {
  Rig rig;
  auto failure = [&](wire::Kind kind, ByteVector body) {
    auto reply = rig.send(kind, std::move(body));
    EXPECT_TRUE(reply->here);
    return reply->failure;
  };
  EXPECT_EQ(failure(wire::Kind::read, {}).code(), Code::invalid);
  EXPECT_EQ(failure(wire::Kind(9999), {}).code(), Code::invalid);
  for (auto kind : {wire::Kind::lookup, wire::Kind::remove, wire::Kind::remove_all, wire::Kind::open_namespace, wire::Kind::report, wire::Kind::explain,
                    wire::Kind::stat, wire::Kind::join, wire::Kind::heartbeat, wire::Kind::advertise, wire::Kind::leave}) {
    EXPECT_EQ(failure(kind, {}).code(), Code::corrupt) << wire::name(kind);
    EXPECT_EQ(failure(kind, ByteVector(100, std::byte(0xFF))).code(), Code::corrupt) << wire::name(kind);
  }
  wire::Builder b;
  auto many = wire::ids(b, std::vector<BlockId>(wire::kIdsPerMessageMax + 1));
  auto status = failure(wire::Kind::lookup, wire::finish(b, wire::CreateLookup(b, 0, many)));
  EXPECT_EQ(status.code(), Code::invalid);
  EXPECT_NE(status.message().find("65537"), std::string::npos);
  wire::Builder c;
  BlockId other = block(1);
  other.namespace_id += 1;
  auto mixed = wire::ids(c, std::vector<BlockId>{block(1), other});
  EXPECT_EQ(failure(wire::Kind::lookup, wire::finish(c, wire::CreateLookup(c, 0, mixed))).code(), Code::invalid);
  wire::Builder d;
  EXPECT_EQ(failure(wire::Kind::explain, wire::finish(d, wire::CreateExplain(d))).code(), Code::invalid);
  auto late = rig.send(wire::Kind::stat, {}, Duration(0));
  EXPECT_EQ(late->failure.code(), Code::timed_out);
}

TEST(Master, state_is_json_and_requests_after_its_end_are_turned_away) {
  Rig rig;
  Node a{1};
  rig.join(a);
  wire::Builder b;
  auto reply = rig.send(wire::Kind::stat, wire::finish(b, wire::CreateStat(b)));
  std::string json(wire::text_of(reply->as<wire::StatReply>()->json()));
  EXPECT_NE(json.find("\"term\":7"), std::string::npos);
  EXPECT_NE(json.find("\"name\":\"n1\""), std::string::npos);
  size_t replicas = 0;
  rig.store(a, 0, 3);
  rig.master->for_each_replica([&](const BlockId&, NodeId node, uint64_t, uint64_t length) {
    ++replicas;
    EXPECT_EQ(node, NodeId(1));
    EXPECT_EQ(length, 100u);
  });
  EXPECT_EQ(replicas, 3u);
  rig.master.reset();
  wire::Builder c;
  EXPECT_EQ(rig.send(wire::Kind::stat, wire::finish(c, wire::CreateStat(c)))->failure.code(), Code::unavailable);
  rig.runtime.run_for(seconds(5));
}

}  // namespace
}  // namespace millpond::master
