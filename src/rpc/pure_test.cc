// Goal: addresses, timers, waiting time and Hello do what their headers say, whatever a peer or a user writes.
// Method: plain functions of values; for Hello both ends in one test, with one field changed at a time.
#include <gmock/gmock.h>

#include <limits>

#include "rpc/address.h"
#include "rpc/core.h"
#include "rpc/hello.h"
#include "rpc/timer_queue.h"
#include "rpc/transit.h"
#include "wire/message.h"

namespace millpond::rpc {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(Address, ReadsWhatItWrites) {
  for (std::string text : {"127.0.0.1:7000", "localhost:0", "[::1]:65535", "unix:/run/millpond/node.sock"}) {
    auto address = parse_address(text);
    ASSERT_TRUE(address) << address.error().text();
    EXPECT_EQ(address->text(), text);
  }
  EXPECT_TRUE(parse_address("unix:/x")->local());
  EXPECT_EQ(parse_address("[::1]:7000")->host, "::1");
}

TEST(Address, SaysWhatIsWrong) {
  auto reason = [](std::string_view text) {
    auto address = parse_address(text);
    return address ? "accepted" : address.error().text();
  };
  EXPECT_THAT(reason("localhost"), HasSubstr("has no port"));
  EXPECT_THAT(reason(""), HasSubstr("has no port"));
  EXPECT_THAT(reason(":7000"), HasSubstr("0.0.0.0:7000"));
  EXPECT_THAT(reason("::1:7000"), HasSubstr("in brackets"));
  EXPECT_THAT(reason("[::1:7000"), HasSubstr("no ]"));
  EXPECT_THAT(reason("host:"), HasSubstr("not a port"));
  EXPECT_THAT(reason("host:70000"), HasSubstr("\"70000\" is not a port"));
  EXPECT_THAT(reason("host:12x"), HasSubstr("not a port"));
  EXPECT_THAT(reason("unix:relative"), HasSubstr("absolute path"));
  EXPECT_THAT(reason("unix:/" + std::string(200, 'a')), HasSubstr("the kernel takes 107"));
}

TEST(Address, KnowsLoopback) {
  auto first = [](std::string_view text) { return resolve(*parse_address(text), false)->front(); };
  EXPECT_TRUE(first("127.3.2.1:1").loopback());
  EXPECT_TRUE(first("[::1]:1").loopback());
  EXPECT_FALSE(first("0.0.0.0:1").loopback());
  EXPECT_FALSE(first("[::]:1").loopback());
  EXPECT_FALSE(first("10.0.0.1:1").loopback());
  EXPECT_EQ(first("[::1]:7000").text(), "[::1]:7000");
  EXPECT_FALSE(resolve(*parse_address("a.name:1"), false));
}

TEST(TimerQueue, GivesInOrderOfTimeThenOfAdding) {
  TimerQueue timers;
  std::string order;
  auto at = [](int s) { return Time{seconds(s)}; };
  timers.add(at(2), [&] { order += 'c'; });
  timers.add(at(1), [&] { order += 'a'; });
  auto dropped = timers.add(at(1), [&] { order += 'x'; });
  timers.add(at(1), [&] { order += 'b'; });
  EXPECT_TRUE(timers.cancel(dropped));
  EXPECT_FALSE(timers.cancel(dropped));
  EXPECT_FALSE(timers.take_due(at(0)));
  while (auto task = timers.take_due(at(1))) task();
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(timers.first(), at(2));
}

TEST(Transit, AStoppedReceiverSeesTheWait) {
  Transit transit;
  EXPECT_EQ(transit.waited_ms(1000, 1003), 0u);
  EXPECT_EQ(transit.waited_ms(2000, 2003), 0u);
  EXPECT_NEAR(double(transit.waited_ms(3000, 18'003)), 15'000, 10);   // stopped for 15 s
  EXPECT_EQ(transit.waited_ms(18'500, 18'503), 0u);
}

TEST(Transit, DriftIsNotWaiting) {
  for (double ppm : {-100.0, 100.0, 400.0}) {
    Transit transit;
    for (uint64_t sent = 0; sent < 3'000'000'000; sent += 500'000) {   // a month, a frame every 500 s
      uint64_t read = uint64_t(double(sent) * (1 + ppm / 1e6));
      ASSERT_LE(transit.waited_ms(sent, read), 1u) << ppm << " ppm, after " << sent << " ms";
    }
  }
}

TEST(Transit, NoValueBreaksIt) {
  Transit transit;
  uint64_t extremes[] = {0, 1, std::numeric_limits<uint64_t>::max(), uint64_t(1) << 63, 1'000};
  for (uint64_t sent : extremes)
    for (uint64_t read : extremes) transit.waited_ms(sent, read);
}

TEST(LogLimit, OneLineInTenSecondsOfEachKind) {
  LogLimit limit;
  EXPECT_EQ(limit.ask("a", Time{seconds(1)}), 0);
  EXPECT_LT(limit.ask("a", Time{seconds(2)}), 0);
  EXPECT_LT(limit.ask("a", Time{seconds(3)}), 0);
  EXPECT_EQ(limit.ask("b", Time{seconds(3)}), 0);
  EXPECT_EQ(limit.ask("a", Time{seconds(12)}), 2);
}

// ---- Hello ----

struct Outcome {
  Status at_client, at_server;
  HelloPeer client, server;
};

// As over a connection: what one end says the other reads; who is refused is still told.
Outcome meet(const Identity& client_identity, const Identity& server_identity) {
  HelloClient client(client_identity, new_nonce());
  HelloServer server(server_identity, new_nonce());
  Outcome out;
  out.at_server = server.read_hello(client.hello());
  out.at_client = client.read_reply(server.reply());
  if (out.at_server.ok()) {
    out.at_server = server.read_proof(client.proof());
    if (out.at_client.ok()) out.at_client = client.read_done(HelloServer::done(out.at_server));
  }
  out.client = server.peer();
  out.server = client.peer();
  return out;
}

Identity node() {
  return {.role = uint8_t(wire::Role::node), .node_id = NodeId(5), .node_epoch = NodeEpoch(7), .master_term = MasterTerm(9), .cluster_id = "c",
          .tenant = "t", .cluster_key = "a key of 32 random bytes, or so.."};
}

TEST(Hello, EachLearnsWhoTheOtherIs) {
  for (std::string key : {"", "secret"}) {
    Identity server = node(), client = node();
    server.cluster_key = client.cluster_key = key;
    client.node_id = NodeId(6);
    Outcome met = meet(client, server);
    EXPECT_TRUE(met.at_client.ok()) << met.at_client.text();
    EXPECT_TRUE(met.at_server.ok()) << met.at_server.text();
    EXPECT_EQ(met.client.node_id, NodeId(6));
    EXPECT_EQ(met.client.tenant, "t");
    EXPECT_EQ(met.client.role, uint8_t(wire::Role::node));
    EXPECT_EQ(met.server.node_id, NodeId(5));
    EXPECT_EQ(met.server.node_epoch, NodeEpoch(7));
    EXPECT_EQ(met.server.master_term, MasterTerm(9));
    EXPECT_EQ(met.server.release, "0.1.0");
  }
}

void expect_refused(const Outcome& met, std::string_view client_reason, std::string_view server_reason) {
  EXPECT_EQ(met.at_client.code(), Code::refused);
  EXPECT_EQ(met.at_server.code(), Code::refused);
  EXPECT_THAT(met.at_client.message(), HasSubstr(client_reason));
  EXPECT_THAT(met.at_server.message(), HasSubstr(server_reason));
}

TEST(Hello, OtherClusterIsRefusedOnBothEnds) {
  Identity other = node();
  other.cluster_id = "d";
  expect_refused(meet(other, node()), "this is cluster \"c\", the caller wants \"d\"", "this is cluster \"c\"");
}

TEST(Hello, KeysMustAgree) {
  Identity other = node(), keyless = node();
  other.cluster_key = "another";
  keyless.cluster_key = "";
  expect_refused(meet(other, node()), "does not prove our cluster key", "does not prove the cluster key");
  expect_refused(meet(keyless, node()), "the caller has none", "the caller has none");
  expect_refused(meet(node(), keyless), "this process has none", "this process has none");
}

TEST(Hello, ProofsCannotBePlayedBackOrMirrored) {
  HelloClient client(node(), new_nonce()), again(node(), new_nonce());
  HelloServer server(node(), new_nonce()), later(node(), new_nonce());
  ASSERT_TRUE(server.read_hello(client.hello()).ok());
  ASSERT_TRUE(client.read_reply(server.reply()).ok());
  ASSERT_TRUE(server.read_proof(client.proof()).ok());
  // The same bytes to another server, and the server's answer to another client.
  ASSERT_TRUE(later.read_hello(client.hello()).ok());
  EXPECT_EQ(later.read_proof(client.proof()).code(), Code::refused);
  EXPECT_EQ(again.read_reply(server.reply()).code(), Code::refused);
  // The server's own proof sent back to it.
  auto reply_bytes = server.reply();
  auto reply = wire::parse<wire::HelloReply>(reply_bytes);
  wire::Builder builder;
  auto mirrored = builder.CreateVector((*reply)->proof()->data(), (*reply)->proof()->size());
  EXPECT_EQ(server.read_proof(wire::finish(builder, wire::CreateHelloProof(builder, mirrored))).code(), Code::refused);
}

TEST(Hello, OtherProtocolNamesBothRanges) {
  wire::Builder builder;
  auto text = [&](std::string_view s) { return builder.CreateString(s.data(), s.size()); };
  auto release = text("9.0.0");
  auto cluster = text("c");
  auto hello = wire::finish(builder, wire::CreateHello(builder, release, 5, 8, wire::Role::client, 0, 0, cluster));
  HelloServer server(node(), new_nonce());
  Status status = server.read_hello(hello);
  EXPECT_EQ(status.code(), Code::refused);
  EXPECT_THAT(status.message(), HasSubstr("release 9.0.0 speaks protocol 5 to 8, release 0.1.0 here 1 to 1"));
  HelloClient client(node(), new_nonce());
  EXPECT_THAT(client.read_reply(server.reply()).message(), HasSubstr("speaks protocol 5 to 8"));
}

TEST(Hello, BadBytesAreCorruptOrRefused) {
  HelloServer server(node(), new_nonce());
  EXPECT_EQ(server.read_hello({}).code(), Code::corrupt);
  EXPECT_EQ(server.read_hello(as_bytes("nonsense, but long enough")).code(), Code::corrupt);
  HelloClient client(node(), new_nonce());
  EXPECT_EQ(client.read_reply(as_bytes("nonsense, but long enough")).code(), Code::corrupt);
  wire::Builder builder;   // a Hello without anything in it
  EXPECT_EQ(server.read_hello(wire::finish(builder, wire::CreateHello(builder))).code(), Code::refused);
  wire::Builder other;     // keyed, right cluster, no nonce
  auto cluster = other.CreateString("c");
  auto bare = wire::finish(other, wire::CreateHello(other, 0, 1, 1, wire::Role::client, 0, 0, cluster, 0, 0, true));
  EXPECT_THAT(server.read_hello(bare).message(), HasSubstr("nonce has 0 bytes"));
}

}  // namespace
}  // namespace millpond::rpc
