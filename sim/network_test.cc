// Goal: the simulated network keeps the promises of rpc/runtime.h (Done once, by the deadline, never inside call(), no
// write to landing memory afterwards), whatever the faults.
// Method: a toy service that echoes messages and payloads, one fault per test; then everything at random.
#include <gtest/gtest.h>

#include <cstring>

#include "sim/network.h"
#include "sim/runtime.h"
#include "wire/frame.h"

namespace millpond::sim {
namespace {
using namespace std::chrono_literals;

ByteVector bytes_of(std::string_view text) {
  auto span = as_bytes(text);
  return {span.begin(), span.end()};
}

// Answers with the request's message, and with its payload doubled if it has one; "never" is not answered in time.
class Echo : public rpc::Service {
 public:
  Result<rpc::Landing> land(const rpc::Request& request) override {
    if (as_text(request.body) == "no landing") return error(Code::no_space, "nothing free");
    auto memory = std::make_shared<ByteVector>(request.payload_bytes);
    return rpc::Landing{{MutableByteSpan(memory->data(), memory->size() / 3), MutableByteSpan(memory->data() + memory->size() / 3, memory->size() - memory->size() / 3)}, memory};
  }
  void serve(rpc::Request request, std::shared_ptr<rpc::Responder> responder) override {
    ++served;
    if (as_text(request.body) == "never") {
      held.push_back(std::move(responder));
      return;
    }
    if (as_text(request.body) == "drop") return;
    rpc::Message reply{.kind = wire::Kind::stat_reply, .body = request.body};
    if (auto memory = std::static_pointer_cast<ByteVector>(request.landing.state)) {
      reply.payload = {ByteSpan(*memory), ByteSpan(*memory)};
      reply.keep = memory;
    }
    responder->answer(std::move(reply));
  }
  void closed(ConnectionId) override { ++connections_closed; }

  int served = 0;
  int connections_closed = 0;
  std::vector<std::shared_ptr<rpc::Responder>> held;
};

struct Pair {
  explicit Pair(uint64_t seed = 1, Network::Options options = {}, rpc::Identity server_identity = {}, rpc::Identity client_identity = {})
      : world(seed),
        network(world, options),
        server_process(world.start_process(HostId(1))),
        client_process(world.start_process(HostId(2))),
        server(world, network, server_process, server_identity),
        client(world, network, client_process, client_identity) {
    address = *server.listen({.address = "127.0.0.1:0"}, &echo);
  }
  // Calls and waits; the answer's code, and how long it took.
  Code call(rpc::Channel& channel, std::string_view text, Duration deadline = 1s, ByteVector* payload = nullptr, ByteVector* landing = nullptr) {
    std::optional<Result<rpc::Reply>> answer;
    bool inside = true;
    rpc::Message message{.kind = wire::Kind::stat, .body = bytes_of(text)};
    if (payload) message.payload = {ByteSpan(*payload)};
    rpc::LandReply land;
    if (landing)
      land = [landing](wire::Kind, ByteSpan, uint64_t bytes) -> Result<rpc::Landing> {
        landing->resize(bytes);
        return rpc::Landing{{MutableByteSpan(*landing)}, nullptr};
      };
    auto start = world.now();
    channel.call(std::move(message), client.now() + deadline, land, [&](Result<rpc::Reply> result) {
      EXPECT_FALSE(inside) << "done ran inside call()";
      EXPECT_FALSE(answer) << "done ran twice";
      answer = std::move(result);
    });
    inside = false;
    world.run_until([&] { return answer.has_value(); }, start + std::max(deadline, Duration(0)));
    EXPECT_TRUE(answer) << "no answer by the deadline";
    if (!answer) return Code::internal;
    if (*answer) EXPECT_EQ(as_text((*answer)->body), text);
    else message_text = answer->error().message();
    return *answer ? Code::ok : answer->error().code();
  }

  World world;
  Network network;
  ProcessId server_process, client_process;
  SimRuntime server, client;
  Echo echo;
  std::string address;
  std::string message_text;
};

TEST(SimNetwork, a_call_is_answered_and_a_payload_lands_whole_both_ways) {
  Pair pair;
  auto channel = pair.client.channel({pair.address});
  EXPECT_EQ(pair.call(*channel, "hello"), Code::ok);
  ByteVector payload(300'000), landing;
  for (size_t i = 0; i < payload.size(); ++i) payload[i] = std::byte(i * 31 >> 3);
  EXPECT_EQ(pair.call(*channel, "payload", 1s, &payload, &landing), Code::ok);
  ASSERT_EQ(landing.size(), 2 * payload.size());
  EXPECT_EQ(std::memcmp(landing.data(), payload.data(), payload.size()), 0);
  EXPECT_EQ(std::memcmp(landing.data() + payload.size(), payload.data(), payload.size()), 0);
  EXPECT_EQ(pair.call(*channel, "no landing", 1s, &payload), Code::no_space);
  EXPECT_EQ(pair.call(*channel, "payload", 1s, &payload), Code::corrupt) << "a payload where no LandReply was given";
  EXPECT_EQ(pair.call(*channel, "drop"), Code::internal);
  EXPECT_EQ(pair.call(*channel, "still there"), Code::ok);
}

TEST(SimNetwork, a_call_without_answer_ends_at_its_deadline) {
  Pair pair;
  auto channel = pair.client.channel({pair.address});
  EXPECT_EQ(pair.call(*channel, "never", 50ms), Code::timed_out);
  EXPECT_EQ(pair.call(*channel, "next", 50ms), Code::ok) << "the connection goes on";
  EXPECT_EQ(pair.call(*channel, "late already", -1ms), Code::timed_out);
}

TEST(SimNetwork, nobody_listening_is_unavailable_and_a_silent_host_times_out) {
  Pair pair;
  auto nobody = pair.client.channel({"10.0.0.1:9"});
  EXPECT_EQ(pair.call(*nobody, "x"), Code::unavailable);
  pair.network.isolate(HostId(1));
  auto channel = pair.client.channel({pair.address});
  EXPECT_EQ(pair.call(*channel, "x", 500ms), Code::timed_out);
  EXPECT_EQ(pair.call(*channel, "x", 5s), Code::unavailable) << "connecting has a deadline of its own";
  pair.network.heal();
  EXPECT_EQ(pair.call(*channel, "x"), Code::ok) << "it connects again";
}

TEST(SimNetwork, hello_of_another_life_is_stale_and_of_another_cluster_refused) {
  rpc::Identity node{.node_id = NodeId(7), .node_epoch = NodeEpoch(2)};
  Pair pair(1, {}, node);
  EXPECT_EQ(pair.call(*pair.client.channel({pair.address, NodeId(7), NodeEpoch(2)}), "x"), Code::ok);
  EXPECT_EQ(pair.call(*pair.client.channel({pair.address, NodeId(7), NodeEpoch(1)}), "x"), Code::stale);
  EXPECT_EQ(pair.call(*pair.client.channel({pair.address, NodeId(8), NodeEpoch(2)}), "x"), Code::stale);
  Pair other(1, {}, {}, {.cluster_id = "elsewhere"});
  EXPECT_EQ(other.call(*other.client.channel({other.address}), "x"), Code::refused);
}

TEST(SimNetwork, a_cut_link_holds_requests_back_and_expired_ones_are_not_served) {
  Pair pair;
  auto channel = pair.client.channel({pair.address});
  ASSERT_EQ(pair.call(*channel, "x"), Code::ok);
  pair.network.cut(HostId(2), HostId(1));
  EXPECT_EQ(pair.call(*channel, "expires", 100ms), Code::timed_out);
  pair.world.run_for(10ms);
  pair.network.heal();
  pair.world.run_for(1s);
  EXPECT_EQ(pair.echo.served, 1);
  // One way only: it is served, the answer does not come back.
  pair.network.cut(HostId(1), HostId(2));
  EXPECT_EQ(pair.call(*channel, "answer is lost", 100ms), Code::timed_out);
  EXPECT_EQ(pair.echo.served, 2);
}

TEST(SimNetwork, what_a_caller_gave_up_may_arrive_after_its_next_connection) {
  Network::Options options;
  options.late_after_close = 1;
  options.stall_limit = 1s;
  Pair pair(1, options);
  auto channel = pair.client.channel({pair.address});
  ASSERT_EQ(pair.call(*channel, "x"), Code::ok);
  pair.network.cut(HostId(2), HostId(1));
  EXPECT_EQ(pair.call(*channel, "late", 60s), Code::unavailable) << "the connection was given up";
  EXPECT_EQ(pair.echo.served, 1);
  pair.network.heal();
  EXPECT_EQ(pair.call(*channel, "next"), Code::ok);
  pair.world.run_for(1s);
  EXPECT_EQ(pair.echo.served, 3);
}

TEST(SimNetwork, a_stopped_server_drops_what_expired_while_it_was_stopped) {
  Pair pair;
  auto channel = pair.client.channel({pair.address});
  ASSERT_EQ(pair.call(*channel, "x"), Code::ok);
  pair.world.pause(pair.server_process);
  EXPECT_EQ(pair.call(*channel, "expires", 1s), Code::timed_out);
  pair.world.run_for(10ms);
  pair.world.resume(pair.server_process);
  pair.world.run_for(1s);
  EXPECT_EQ(pair.echo.served, 1);
  EXPECT_EQ(pair.call(*channel, "x"), Code::ok);
}

TEST(SimNetwork, a_dead_process_is_told_by_its_host_unless_that_is_gone_too) {
  Pair pair;
  auto channel = pair.client.channel({pair.address});
  ASSERT_EQ(pair.call(*channel, "x"), Code::ok);
  int ended = 0;
  channel->call({.kind = wire::Kind::stat, .body = bytes_of("never")}, pair.client.now() + 10s, nullptr, [&](Result<rpc::Reply> result) {
    EXPECT_EQ(result.error().code(), Code::unavailable);
    ++ended;
  });
  pair.world.run_for(10ms);
  pair.network.process_ended(pair.server_process, /*silent=*/false);
  pair.world.end_process(pair.server_process);
  pair.world.run_for(10ms);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(pair.call(*channel, "x"), Code::unavailable);
}

TEST(SimNetwork, a_channel_that_goes_ends_its_calls_with_unavailable) {
  Pair pair;
  auto channel = pair.client.channel({pair.address});
  int ended = 0;
  channel->call({.kind = wire::Kind::stat, .body = bytes_of("never")}, pair.client.now() + 10s, nullptr, [&](Result<rpc::Reply> result) {
    EXPECT_EQ(result.error().code(), Code::unavailable);
    ++ended;
  });
  pair.world.run_for(10ms);
  channel.reset();
  EXPECT_EQ(ended, 0) << "never inside";
  pair.world.run_for(10ms);
  EXPECT_EQ(ended, 1);
  EXPECT_EQ(pair.echo.connections_closed, 1);
}

TEST(SimNetwork, memory_that_changes_while_it_is_sent_arrives_torn) {
  Pair pair;
  auto channel = pair.client.channel({pair.address});
  ByteVector payload(200'000, std::byte(1)), landing;
  pair.world.after(300us, kWorldProcess, [&] { std::memset(payload.data(), 2, payload.size()); });
  // The change comes while chunks are on their way: which is decided by the seed, that it can be seen is the point.
  bool torn = false;
  for (int i = 0; i < 50 && !torn; ++i) {
    std::memset(payload.data(), 1, payload.size());
    pair.world.after(std::chrono::microseconds(i * 10), kWorldProcess, [&] { std::memset(payload.data(), 2, payload.size()); });
    ASSERT_EQ(pair.call(*channel, "p", 1s, &payload, &landing), Code::ok);
    torn = landing.front() != landing[payload.size() - 1];
  }
  EXPECT_TRUE(torn);
}

TEST(SimNetwork, timers_run_in_order_and_a_dropped_handle_cancels) {
  Pair pair;
  std::vector<int> order;
  auto late = pair.client.after(2ms, [&] { order.push_back(2); });
  auto early = pair.client.after(1ms, [&] { order.push_back(1); });
  auto cancelled = pair.client.after(1500us, [&] { order.push_back(9); });
  pair.client.post([&] { order.push_back(0); });
  cancelled.reset();
  pair.world.run_for(10ms);
  EXPECT_EQ(order, (std::vector{0, 1, 2}));
}

TEST(SimNetwork, everything_at_once_keeps_the_promises_and_one_seed_gives_one_run) {
  auto run = [](uint64_t seed) {
    Network::Options options;
    options.break_connection = 0.02;
    options.flip_message = 0.01;
    options.flip_payload = 0.01;
    options.duplicate = 0.1;
    options.stall_limit = 300ms;
    Pair pair(seed, options);
    Random random(seed);
    std::vector<std::shared_ptr<rpc::Channel>> channels;
    for (int i = 0; i < 3; ++i) channels.push_back(pair.client.channel({pair.address}));
    struct Operation {
      Time deadline;
      ByteVector payload, landing, after_done;
      bool done = false;
    };
    std::vector<std::unique_ptr<Operation>> operations;
    for (int i = 0; i < 300; ++i) {
      auto& op = *operations.emplace_back(std::make_unique<Operation>());
      op.deadline = pair.world.now() + Duration(random.below(20'000'000));
      op.payload.assign(random.chance(0.5) ? 0 : random.below(200'000), std::byte(i));
      op.landing.resize(400'000);
      rpc::Message message{.kind = wire::Kind::stat, .body = bytes_of(random.chance(0.1) ? "never" : "some message")};
      if (!op.payload.empty()) message.payload = {ByteSpan(op.payload)};
      channels[random.below(3)]->call(
          std::move(message), pair.client.now() + (op.deadline - pair.world.now()),
          [&op](wire::Kind, ByteSpan, uint64_t bytes) -> Result<rpc::Landing> { return rpc::Landing{{MutableByteSpan(op.landing.data(), bytes)}, nullptr}; },
          [&op, &pair](Result<rpc::Reply>) {
            EXPECT_FALSE(op.done);
            EXPECT_LE(pair.world.now(), op.deadline);
            op.done = true;
            op.after_done = op.landing;
            std::fill(op.payload.begin(), op.payload.end(), std::byte(0xEE));   // ours again
          });
      if (random.chance(0.05)) random.chance(0.5) ? pair.network.cut(HostId(1), HostId(2)) : pair.network.cut(HostId(2), HostId(1));
      if (random.chance(0.1)) pair.network.heal();
      if (random.chance(0.02)) pair.world.pause(pair.server_process);
      if (random.chance(0.1)) pair.world.resume(pair.server_process);
      if (random.chance(0.02)) channels[random.below(3)] = pair.client.channel({pair.address});
      pair.world.run_for(Duration(random.below(2'000'000)));
    }
    pair.network.heal();
    pair.world.resume(pair.server_process);
    pair.world.run_for(20s);
    for (auto& op : operations) {
      EXPECT_TRUE(op->done);
      EXPECT_EQ(op->landing, op->after_done) << "written after done";
    }
    pair.echo.held.clear();
    return pair.world.digest();
  };
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE(seed);
    auto digest = run(seed);
    if (seed <= 2) {
      EXPECT_EQ(digest, run(seed));
    }
  }
}

}  // namespace
}  // namespace millpond::sim
