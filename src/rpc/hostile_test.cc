// Goal: peers that are slow, broken or hostile harm only their own connection; memory is nobody else's when done has run.
// Method: a peer that speaks frames by hand on a blocking socket, against a real runtime.
#include <gmock/gmock.h>

#include "rpc/test_peer.h"
#include "wire/limits.h"

namespace millpond::rpc {
namespace {

using testing::HasSubstr;
using wire::Kind;

// ---- Bad servers ----

TEST(BadServer, AcceptsAndNeverAnswers) {
  RawServer server;
  Daemon client;
  auto channel = client.runtime->channel({.address = server.address()});
  EXPECT_EQ(call(*client.runtime, *channel, text_request("x"), 30ms).error().code(), Code::timed_out);   // while Hello waits
}

TEST(BadServer, NeverFinishesHello) {
  RawServer server;
  Daemon client({.hello_timeout = 30ms});
  auto channel = client.runtime->channel({.address = server.address()});
  auto reply = call(*client.runtime, *channel, text_request("x"));
  EXPECT_EQ(reply.error().code(), Code::unavailable);
  EXPECT_THAT(reply.error().message(), HasSubstr("does not answer Hello"));
  EXPECT_EQ(client.metric("millpond_rpc_hello_timed_out_total"), 1);
}

TEST(BadServer, SaysHelloAndNothingMore) {
  RawServer server;
  Daemon client;
  auto channel = client.runtime->channel({.address = server.address()});
  auto reply = start_call(*client.runtime, *channel, text_request("x"), 50ms);
  RawPeer peer = server.accept();
  peer.serve_hello();
  EXPECT_EQ(reply.get().error().code(), Code::timed_out);
}

TEST(BadServer, SpeaksAnotherProtocol) {
  RawServer server;
  Daemon client;
  auto channel = client.runtime->channel({.address = server.address()});
  auto reply = start_call(*client.runtime, *channel, text_request("x"));
  RawPeer peer = server.accept();
  peer.send_bytes(as_bytes("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"));
  auto result = reply.get();
  EXPECT_EQ(result.error().code(), Code::corrupt);
  EXPECT_THAT(result.error().message(), HasSubstr("does not speak Millpond"));
}

TEST(BadServer, HangsUpMidway) {
  RawServer server;
  Daemon client;
  auto channel = client.runtime->channel({.address = server.address()});
  ByteVector memory(1000);
  auto reply = start_call(*client.runtime, *channel, text_request("x"), kLong,
                          [&](Kind, ByteSpan, uint64_t) -> Result<Landing> { return Landing{.pieces = {memory}}; });
  {
    RawPeer peer = server.accept();
    peer.serve_hello();
    auto request = peer.read_frame();
    peer.send_bytes(wire::encode_header({.kind = Kind::stat_reply, .flags = wire::kFlagReply, .request_id = request.header.request_id, .payload_bytes = 1000}, {}));
    peer.send_bytes(ByteVector(500));
  }
  EXPECT_EQ(reply.get().error().code(), Code::unavailable);
}

TEST(BadServer, DeadlineWhileTheAnswerLandsLeavesTheMemoryAlone) {
  RawServer server;
  Daemon client;
  auto channel = client.runtime->channel({.address = server.address()});
  auto memory = std::make_unique<ByteVector>(1 << 20);
  std::promise<void> landing;
  auto reply = start_call(*client.runtime, *channel, text_request("x"), 200ms, [&](Kind, ByteSpan, uint64_t) -> Result<Landing> {
    landing.set_value();
    return Landing{.pieces = {*memory}};
  });
  RawPeer peer = server.accept();
  peer.serve_hello();
  auto request = peer.read_frame();
  ByteVector half(memory->size() / 2, std::byte(1));
  peer.send_bytes(wire::encode_header({.kind = Kind::stat_reply, .flags = wire::kFlagReply, .request_id = request.header.request_id, .payload_bytes = memory->size()}, {}));
  peer.send_bytes(half);
  landing.get_future().wait();
  EXPECT_EQ(reply.get().error().code(), Code::timed_out);
  memory.reset();                        // the sanitizer watches it from here
  peer.send_bytes(half);
  auto next = start_call(*client.runtime, *channel, text_request("y"));   // on the same connection
  request = peer.read_frame();
  EXPECT_EQ(as_text(request.body), "y");
  peer.send_frame({.kind = Kind::stat_reply, .flags = wire::kFlagReply, .request_id = request.header.request_id}, {});
  EXPECT_TRUE(next.get());
}

TEST(BadServer, DeadlineWhileAPayloadIsSentFreesItAndClosesTheConnection) {
  RawServer server;
  Daemon client;
  auto channel = client.runtime->channel({.address = server.address()});
  auto other = start_call(*client.runtime, *channel, text_request("first"));
  RawPeer peer = server.accept();
  peer.serve_hello();
  EXPECT_EQ(as_text(peer.read_frame().body), "first");
  auto memory = std::make_unique<ByteVector>(64 << 20);   // more than the sockets hold
  auto reply = start_call(*client.runtime, *channel, {.kind = Kind::store, .payload = {*memory}}, 100ms);
  EXPECT_EQ(reply.get().error().code(), Code::timed_out);
  memory.reset();
  auto cut_off = other.get();
  EXPECT_EQ(cut_off.error().code(), Code::unavailable);
  EXPECT_THAT(cut_off.error().message(), HasSubstr("payload was still being sent at its deadline"));
  EXPECT_EQ(client.metric("millpond_rpc_sends_cut_total"), 1);
  auto next = start_call(*client.runtime, *channel, text_request("again"));
  RawPeer fresh = server.accept();
  fresh.serve_hello();
  auto request = fresh.read_frame();
  fresh.send_frame({.kind = Kind::stat_reply, .flags = wire::kFlagReply, .request_id = request.header.request_id}, {});
  EXPECT_TRUE(next.get());
}

TEST(BadServer, AnswersBeforeThePayloadIsSent) {
  RawServer server;
  Daemon client;
  auto channel = client.runtime->channel({.address = server.address()});
  ByteVector memory(64 << 20);
  auto reply = start_call(*client.runtime, *channel, {.kind = Kind::store, .payload = {memory}});
  RawPeer peer = server.accept();
  peer.serve_hello();
  wire::FrameHeaderBytes header_bytes;
  ASSERT_TRUE(peer.read_bytes(header_bytes));
  auto header = wire::decode_header(header_bytes);
  ASSERT_TRUE(header);
  wire::FrameHeader answer{.kind = Kind::failure, .flags = wire::kFlagReply, .request_id = header->request_id};
  peer.send_frame(answer, wire::failure_body(Status(Code::no_space, "full")));
  peer.send_frame(answer, wire::failure_body(Status(Code::exists, "an answer too many")));
  settle(*client.runtime);
  EXPECT_NE(reply.wait_for(0s), std::future_status::ready);   // the payload is still being read
  ByteVector rest(memory.size());
  ASSERT_TRUE(peer.read_bytes(rest));
  EXPECT_EQ(reply.get().error().text(), "no_space: full");
}

TEST(BadServer, SendsFramesThatDoNotVerify) {
  RawServer server;
  Daemon client;
  auto channel = client.runtime->channel({.address = server.address()});
  for (int kind = 0; kind < 4; ++kind) {
    auto reply = start_call(*client.runtime, *channel, text_request("x"));
    RawPeer peer = server.accept();
    peer.serve_hello();
    auto request = peer.read_frame();
    wire::FrameHeader header{.kind = Kind::stat_reply, .flags = wire::kFlagReply, .request_id = request.header.request_id};
    if (kind == 0) {
      auto bytes = wire::encode_header(header, bytes_of("abc"));
      peer.send_bytes(bytes);
      peer.send_bytes(as_bytes("abd"));
    } else if (kind == 1) {
      peer.send_frame({.kind = Kind::stat, .request_id = request.header.request_id}, {});   // a request to a client
    } else if (kind == 2) {
      auto bytes = wire::encode_header(header, {});
      bytes[24] = bytes[27] = std::byte(0xff);   // a message of 4 GB
      peer.send_bytes(bytes);
    } else {
      peer.send_bytes(ByteVector(200, std::byte(0xaa)));
    }
    EXPECT_EQ(reply.get().error().code(), Code::corrupt) << kind;
    EXPECT_TRUE(peer.closed_by_peer());
  }
  EXPECT_EQ(client.metric("millpond_rpc_frames_corrupt_total"), 4);
}

// ---- Bad clients ----

TEST(BadClient, OnlyItsOwnConnectionSuffers) {
  Daemon server, good;
  std::string address = server.listen();
  auto channel = good.runtime->channel({.address = address});
  ASSERT_TRUE(call(*good.runtime, *channel, text_request("before")));

  {  // no Hello at all
    RawPeer peer = RawPeer::dial(address);
    peer.send_bytes(as_bytes("GET /metrics HTTP/1.1\r\nHost: localhost\r\nUser-Agent: curl/7.88.1\r\n\r\n"));
    EXPECT_TRUE(peer.closed_by_peer());
  }
  {  // a request before Hello
    RawPeer peer = RawPeer::dial(address);
    peer.send_frame({.kind = Kind::stat}, {});
    EXPECT_TRUE(peer.closed_by_peer());
  }
  {  // a Hello that is too long
    RawPeer peer = RawPeer::dial(address);
    peer.send_bytes(wire::encode_header({.kind = Kind::hello}, ByteVector(wire::kHelloBytesMax + 1)));
    EXPECT_TRUE(peer.closed_by_peer());
  }
  {  // a payload before Hello
    RawPeer peer = RawPeer::dial(address);
    peer.send_bytes(wire::encode_header({.kind = Kind::hello, .payload_bytes = 1}, {}));
    EXPECT_TRUE(peer.closed_by_peer());
  }
  for (size_t byte : {0, 4, 19, 23, 27, 40, 44, 50}) {   // each field of a good header broken, in turn
    RawPeer peer = RawPeer::client(address);
    auto bytes = wire::encode_header({.kind = Kind::stat, .request_id = 1, .deadline_us = 1'000'000}, {});
    bytes[byte] ^= std::byte(0xf0);
    peer.send_bytes(bytes);
    EXPECT_TRUE(peer.closed_by_peer()) << byte;
  }
  {  // a reply from a client
    RawPeer peer = RawPeer::client(address);
    peer.send_frame({.kind = Kind::stat_reply, .flags = wire::kFlagReply}, {});
    EXPECT_TRUE(peer.closed_by_peer());
  }
  {  // a message of the largest size announced, and hardly any of it sent
    RawPeer peer = RawPeer::client(address);
    auto bytes = wire::encode_header({.kind = Kind::stat}, ByteVector(wire::kMessageBytesMax));
    peer.send_bytes(bytes);
    peer.send_bytes(ByteVector(1000));
    EXPECT_TRUE(call(*good.runtime, *channel, text_request("meanwhile")));
  }
  EXPECT_TRUE(call(*good.runtime, *channel, text_request("after")));
  EXPECT_EQ(good.metric("millpond_rpc_connections_total{side=\"client\"}"), 1);
}

TEST(BadClient, HalfAFrameBlocksNobodyAndIsCutOff) {
  Daemon server({.stall_timeout = 40ms});
  Daemon good;
  std::string address = server.listen();
  RawPeer peer = RawPeer::client(address);
  auto bytes = wire::encode_header({.kind = Kind::stat, .request_id = 1, .deadline_us = 1'000'000}, {});
  peer.send_bytes(ByteSpan(bytes).first(20));
  auto channel = good.runtime->channel({.address = address});
  EXPECT_TRUE(call(*good.runtime, *channel, text_request("x")));
  EXPECT_TRUE(peer.closed_by_peer());
  EXPECT_EQ(server.metric("millpond_rpc_stalled_total"), 1);
}

TEST(BadClient, NeverFinishesHello) {
  Daemon server({.hello_timeout = 30ms});
  RawPeer peer = RawPeer::dial(server.listen());
  EXPECT_TRUE(peer.closed_by_peer());
  EXPECT_EQ(server.metric("millpond_rpc_hello_timed_out_total"), 1);
}

TEST(BadClient, ConnectionsAreBounded) {
  std::promise<void> closed;
  Daemon server({.connections_max = 2});
  server.service.on_closed = [&](ConnectionId id) {
    if (id == ConnectionId(1)) closed.set_value();
  };
  std::string address = server.listen();
  RawPeer one = RawPeer::client(address), two = RawPeer::client(address);
  EXPECT_TRUE(RawPeer::dial(address).closed_by_peer());
  EXPECT_EQ(server.metric("millpond_rpc_connections_turned_away_total"), 1);
  one.hang_up();
  closed.get_future().wait();
  RawPeer again = RawPeer::client(address);
}

TEST(BadClient, ExpiredWorkIsNotDone) {
  Daemon server;
  std::atomic<int> served{0}, landed{0};
  ByteVector memory(8);
  server.service.on_serve = [&](Request, std::shared_ptr<Responder> responder) {
    ++served;
    responder->answer({.kind = Kind::stat_reply});
  };
  server.service.on_land = [&](const Request&) -> Result<Landing> {
    ++landed;
    return Landing{.pieces = {memory}};
  };
  RawPeer peer = RawPeer::client(server.listen());
  peer.send_frame({.kind = Kind::stat, .request_id = 1, .deadline_us = 5'000'000, .since_hello_ms = 20'000}, {});
  EXPECT_EQ(peer.read_frame().header.kind, Kind::stat_reply);
  // 10 s older than the one before: as if we had been stopped while it stood in the socket.
  peer.send_frame({.kind = Kind::stat, .request_id = 2, .deadline_us = 5'000'000, .since_hello_ms = 10'000}, {});
  peer.send_frame({.kind = Kind::store, .request_id = 3, .deadline_us = 5'000'000, .since_hello_ms = 10'000}, {}, as_bytes("12345678"));
  peer.send_frame({.kind = Kind::stat, .request_id = 4, .deadline_us = 0, .since_hello_ms = 20'000}, {});
  for (uint64_t id : {2, 3, 4}) {
    auto frame = peer.read_frame();
    EXPECT_EQ(frame.header.request_id, id);
    EXPECT_EQ(wire::failure_status(frame.body).code(), Code::timed_out);
  }
  peer.send_frame({.kind = Kind::stat, .request_id = 5, .deadline_us = 5'000'000, .since_hello_ms = 20'000}, {});
  EXPECT_EQ(peer.read_frame().header.kind, Kind::stat_reply);
  EXPECT_EQ(served, 2);
  EXPECT_EQ(landed, 0);
  EXPECT_EQ(server.metric("millpond_rpc_expired_total"), 3);
}

TEST(BadClient, HangsUpWhileItsPayloadLands) {
  Daemon server;
  auto state = std::make_shared<ByteVector>(1000);
  std::weak_ptr<void> watched = state;
  std::promise<void> landing, closed;
  server.service.on_land = [&](const Request&) -> Result<Landing> {
    landing.set_value();
    return Landing{.pieces = {*state}, .state = std::exchange(state, {})};
  };
  server.service.on_serve = [](Request, std::shared_ptr<Responder>) { FAIL() << "half a payload was served"; };
  server.service.on_closed = [&](ConnectionId) { closed.set_value(); };
  {
    RawPeer peer = RawPeer::client(server.listen());
    peer.send_bytes(wire::encode_header({.kind = Kind::store, .request_id = 1, .deadline_us = 5'000'000, .payload_bytes = 1000}, {}));
    peer.send_bytes(ByteVector(10));
    landing.get_future().wait();
  }
  closed.get_future().wait();
  settle(*server.runtime);
  EXPECT_TRUE(watched.expired());        // the reservation came back
}

TEST(BadClient, ReadsNoAnswersAndIsCutOff) {
  Daemon server({.requests_in_flight_max = 8, .stall_timeout = 100ms});
  ByteVector large(8 << 20);
  server.service.on_serve = [&](Request, std::shared_ptr<Responder> responder) {
    responder->answer({.kind = Kind::stat_reply, .payload = {large}});
  };
  std::promise<void> closed;
  server.service.on_closed = [&](ConnectionId) { closed.set_value(); };
  RawPeer peer = RawPeer::client(server.listen());
  for (uint64_t id = 1; id <= 100; ++id) peer.send_frame({.kind = Kind::stat, .request_id = id, .deadline_us = 60'000'000}, {});
  closed.get_future().wait();
  EXPECT_LE(server.metric("millpond_rpc_requests_total"), 8 + 100);
  EXPECT_EQ(server.metric("millpond_rpc_stalled_total"), 1);
}

}  // namespace
}  // namespace millpond::rpc
