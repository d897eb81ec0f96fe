// Goal: what two Millpond processes do with each other over real sockets: calls, payloads, restarts, descriptors, the end.
// Method: two runtimes in one process; the clock is real, so nothing here depends on how fast it goes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <filesystem>
#include <numeric>
#include <thread>

#include "base/random.h"
#include "rpc/settings.h"
#include "rpc/test_peer.h"

namespace millpond::rpc {
namespace {

using testing::HasSubstr;

struct Directory {
  Directory() {
    char name[] = "/tmp/millpond-rpc-XXXXXX";
    path = mkdtemp(name);
  }
  ~Directory() { std::filesystem::remove_all(path); }
  std::string path;
};

TEST(Runtime, EchoOverTcpIpv6AndUnix) {
  Directory directory;
  for (std::string address : {std::string("127.0.0.1:0"), std::string("[::1]:0"), "unix:" + directory.path + "/deep/er/s.sock"}) {
    Daemon server, client;
    auto channel = client.runtime->channel({.address = server.listen(address)});
    for (std::string text : {std::string("hello"), std::string(), std::string(3'000'000, 'x')}) {
      auto reply = call(*client.runtime, *channel, text_request(text));
      ASSERT_TRUE(reply) << reply.error().text();
      EXPECT_EQ(reply->kind, wire::Kind::stat_reply);
      EXPECT_EQ(as_text(reply->body), text);
    }
    EXPECT_EQ(server.metric("millpond_rpc_requests_total"), 3);
    EXPECT_EQ(server.metric("millpond_rpc_connections_open{side=\"server\"}"), 1);
  }
}

TEST(Runtime, CallerIsKnown) {
  Directory directory;
  Daemon server;
  Daemon client({.identity = {.role = 2, .node_id = NodeId(11), .node_epoch = NodeEpoch(12), .tenant = "blue"}});
  std::promise<Caller> seen;
  server.service.on_serve = [&](Request request, std::shared_ptr<Responder> responder) {
    seen.set_value(request.caller);
    responder->fail(Status(Code::no_space, "full of {}", "blocks"));
  };
  auto channel = client.runtime->channel({.address = server.listen("unix:" + directory.path + "/s")});
  auto reply = call(*client.runtime, *channel, text_request("x"));
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().text(), "no_space: full of blocks");
  Caller caller = seen.get_future().get();
  EXPECT_EQ(caller.node_id, NodeId(11));
  EXPECT_EQ(caller.node_epoch, NodeEpoch(12));
  EXPECT_EQ(caller.role, 2);
  EXPECT_EQ(caller.tenant, "blue");
  EXPECT_TRUE(caller.same_host);
  EXPECT_EQ(client.metric("millpond_rpc_calls_failed_total{code=\"no_space\"}"), 1);
}

TEST(Runtime, ManyThreadsOneChannelAnswersOutOfOrder) {
  Daemon server, client;
  std::vector<std::thread> workers;
  std::vector<std::pair<ByteVector, std::shared_ptr<Responder>>> held;   // the loop's own
  server.service.on_serve = [&](Request request, std::shared_ptr<Responder> responder) {
    held.emplace_back(std::move(request.body), std::move(responder));
    if (held.size() < 8) return;
    while (!held.empty()) {   // last first, from another thread
      workers.emplace_back([body = held.back().first, responder = held.back().second] { responder->answer({.kind = wire::Kind::stat_reply, .body = body}); });
      held.pop_back();
    }
  };
  auto channel = client.runtime->channel({.address = server.listen()});
  std::vector<std::thread> callers;
  std::atomic<int> right{0};
  for (int t = 0; t < 8; ++t)
    callers.emplace_back([&, t] {
      for (int i = 0; i < 50; ++i) {
        std::string text = fmt::format("{} {}", t, i);
        auto reply = call(*client.runtime, *channel, text_request(text));
        if (reply && as_text(reply->body) == text) ++right;
      }
    });
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(right, 8 * 50);
  EXPECT_EQ(client.metric("millpond_rpc_calls_in_flight"), 0);
  server.runtime.reset();
  for (auto& worker : workers) worker.join();
}

// Pieces of odd sizes, empty ones among them.
template <typename Span, typename Memory>
std::vector<Span> cut(Memory& memory, size_t seed) {
  std::vector<Span> pieces;
  Span rest(memory);
  for (size_t i = 0; !rest.empty(); ++i) {
    size_t size = std::min(rest.size(), (seed * 7919 + i * 104'729) % 9'973);
    pieces.push_back(rest.first(size));
    rest = rest.subspan(size);
  }
  return pieces;
}

ByteVector pattern(size_t size, uint64_t seed) {
  ByteVector bytes(size);
  millpond::Random random(seed);
  for (auto& byte : bytes) byte = std::byte(random.next());
  return bytes;
}

TEST(Runtime, PayloadsBothWaysIntoOddPieces) {
  Daemon server, client;
  constexpr size_t kSize = (1 << 20) + 13;
  auto stored = std::make_shared<ByteVector>(kSize);
  server.service.on_land = [&](const Request& request) -> Result<Landing> {
    EXPECT_EQ(request.payload_bytes, kSize);
    return Landing{.pieces = cut<MutableByteSpan>(*stored, 3), .state = stored};
  };
  server.service.on_serve = [&](Request request, std::shared_ptr<Responder> responder) {
    EXPECT_EQ(request.landing.state, stored);
    EXPECT_EQ(as_text(request.body), "store");
    responder->answer({.kind = wire::Kind::store_reply, .body = std::move(request.body), .payload = cut<ByteSpan>(*stored, 5), .keep = stored});
  };
  auto channel = client.runtime->channel({.address = server.listen()});
  for (uint64_t round = 0; round < 20; ++round) {
    ByteVector sent = pattern(kSize, round), received(kSize);
    Message request{.kind = wire::Kind::store, .body = bytes_of("store"), .payload = cut<ByteSpan>(sent, round)};
    auto reply = call(*client.runtime, *channel, std::move(request), kLong, [&](wire::Kind, ByteSpan body, uint64_t bytes) -> Result<Landing> {
      EXPECT_EQ(as_text(body), "store");
      EXPECT_EQ(bytes, kSize);
      return Landing{.pieces = cut<MutableByteSpan>(received, round + 1)};
    });
    ASSERT_TRUE(reply) << reply.error().text();
    EXPECT_EQ(reply->payload_bytes, kSize);
    EXPECT_EQ(as_text(reply->body), "store");
    ASSERT_TRUE(sent == received);
  }
  EXPECT_GT(client.metric("millpond_rpc_bytes_in_total"), 20.0 * kSize);
}

TEST(Runtime, PayloadsThatNobodyTakesAreDrained) {
  Daemon server, client;
  ByteVector bytes = pattern(300'000, 1);
  bool answer_with_payload = false;
  server.service.on_serve = [&](Request request, std::shared_ptr<Responder> responder) {
    Message reply{.kind = wire::Kind::stat_reply, .body = request.body};
    if (answer_with_payload) reply.payload = {bytes};
    responder->answer(std::move(reply));
  };
  auto channel = client.runtime->channel({.address = server.listen()});
  auto refused = call(*client.runtime, *channel, {.kind = wire::Kind::stat, .payload = {bytes}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code(), Code::invalid);
  EXPECT_THAT(refused.error().message(), HasSubstr("a stat takes no payload, 300000 bytes came"));

  answer_with_payload = true;
  EXPECT_EQ(call(*client.runtime, *channel, text_request("a")).error().code(), Code::corrupt);
  auto no_room = [](wire::Kind, ByteSpan, uint64_t) -> Result<Landing> { return error(Code::no_space, "no room {}", 7); };
  EXPECT_EQ(call(*client.runtime, *channel, text_request("a"), kLong, no_room).error().text(), "no_space: no room 7");
  ByteVector small(10);
  auto too_small = [&](wire::Kind, ByteSpan, uint64_t) -> Result<Landing> { return Landing{.pieces = {small}}; };
  EXPECT_EQ(call(*client.runtime, *channel, text_request("a"), kLong, too_small).error().code(), Code::internal);

  answer_with_payload = false;
  EXPECT_TRUE(call(*client.runtime, *channel, text_request("still here")));
  EXPECT_EQ(server.metric("millpond_rpc_connections_total{side=\"server\"}"), 1);   // all of it on one connection
}

TEST(Runtime, AServiceThatForgetsAnswersInternal) {
  Daemon server, client;
  server.service.on_serve = [](Request, std::shared_ptr<Responder>) {};
  auto channel = client.runtime->channel({.address = server.listen()});
  EXPECT_EQ(call(*client.runtime, *channel, text_request("x")).error().code(), Code::internal);
}

TEST(Runtime, AServiceThatWaitsMeetsTheDeadline) {
  Daemon server, client;
  std::shared_ptr<Responder> kept;
  server.service.on_serve = [&](Request, std::shared_ptr<Responder> responder) { kept = std::move(responder); };
  auto channel = client.runtime->channel({.address = server.listen()});
  auto reply = call(*client.runtime, *channel, text_request("x"), 30ms);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code(), Code::timed_out);
  on_loop(*server.runtime, [&] {
    server.service.on_serve = {};
    std::exchange(kept, {})->answer({.kind = wire::Kind::stat_reply});   // too late: ignored by the caller
  });
  EXPECT_TRUE(call(*client.runtime, *channel, text_request("y")));
  EXPECT_EQ(client.metric("millpond_rpc_replies_late_total"), 1);
  EXPECT_EQ(call(*client.runtime, *channel, text_request("past"), -1ms).error().code(), Code::timed_out);
}

TEST(Runtime, TooManyCallsAreOverloaded) {
  Daemon server;
  Daemon client({.queue_calls_max = 3});
  std::vector<std::shared_ptr<Responder>> kept;
  std::promise<void> three;
  server.service.on_serve = [&](Request, std::shared_ptr<Responder> responder) {
    kept.push_back(std::move(responder));
    if (kept.size() == 3) three.set_value();
  };
  auto channel = client.runtime->channel({.address = server.listen()});
  std::vector<std::future<Result<Reply>>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(start_call(*client.runtime, *channel, text_request("x")));
  three.get_future().wait();
  EXPECT_EQ(call(*client.runtime, *channel, text_request("one too many")).error().code(), Code::overloaded);
  server.runtime->post([&] { for (auto& responder : std::exchange(kept, {})) responder->answer({.kind = wire::Kind::stat_reply}); });
  for (auto& one : calls) EXPECT_TRUE(one.get());
}

TEST(Runtime, MoreRequestsThanTheServerTakesAtOnceAllGetTheirAnswer) {
  Daemon server({.requests_in_flight_max = 4});
  Daemon client;
  std::atomic<int> most{0};
  std::vector<std::shared_ptr<Responder>> kept;
  server.service.on_serve = [&](Request, std::shared_ptr<Responder> responder) {
    kept.push_back(std::move(responder));
    most = std::max<int>(most, int(kept.size()));
    if (kept.size() == 4) for (auto& one : std::exchange(kept, {})) one->answer({.kind = wire::Kind::stat_reply});
  };
  auto channel = client.runtime->channel({.address = server.listen()});
  std::vector<std::future<Result<Reply>>> calls;
  for (int i = 0; i < 400; ++i) calls.push_back(start_call(*client.runtime, *channel, text_request("x")));
  for (auto& one : calls) EXPECT_TRUE(one.get());
  EXPECT_EQ(most, 4);
}

TEST(Runtime, RestartOnTheSamePort) {
  auto server = std::make_unique<Daemon>();
  Daemon client({.backoff_min = 1ms, .backoff_max = 2ms});
  std::string address = server->listen();
  auto channel = client.runtime->channel({.address = address});
  ASSERT_TRUE(call(*client.runtime, *channel, text_request("a")));
  server.reset();
  auto gone = call(*client.runtime, *channel, text_request("b"));
  ASSERT_FALSE(gone);
  EXPECT_EQ(gone.error().code(), Code::unavailable);
  server = std::make_unique<Daemon>();
  EXPECT_EQ(server->listen(address), address);
  Time limit = client.runtime->now() + kLong;
  Result<Reply> reply;
  do reply = call(*client.runtime, *channel, text_request("c"));
  while (!reply && client.runtime->now() < limit);   // the backoff of b may not be over
  EXPECT_TRUE(reply) << reply.error().text();
}

TEST(Runtime, ARefusedConnectFailsAtOnceAndBacksOff) {
  std::string address;
  { RawServer nobody; address = nobody.address(); }
  Daemon client({.backoff_min = 1h, .backoff_max = 1h});
  auto channel = client.runtime->channel({.address = address});
  for (int i = 0; i < 3; ++i) {
    auto reply = call(*client.runtime, *channel, text_request("x"));
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code(), Code::unavailable);
    EXPECT_THAT(reply.error().message(), HasSubstr("Connection refused"));
  }
}

TEST(Runtime, BadAddressesAreInvalid) {
  Daemon client;
  auto channel = client.runtime->channel({.address = "nowhere"});
  EXPECT_EQ(call(*client.runtime, *channel, text_request("x")).error().code(), Code::invalid);
  auto listening = client.runtime->listen({.address = "::1:7"}, &client.service);
  EXPECT_THAT(listening.error().text(), HasSubstr("in brackets"));
}

TEST(Runtime, PortInUseAndOpenAddressesAreInvalid) {
  Daemon one, other;
  std::string address = one.listen();
  auto again = other.runtime->listen({.address = address}, &other.service);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code(), Code::invalid);
  EXPECT_THAT(again.error().message(), HasSubstr("the port is in use"));
  EXPECT_THAT(other.runtime->listen({.address = "0.0.0.0:0"}, &other.service).error().message(), HasSubstr("set cluster_key"));
  EXPECT_THAT(other.runtime->listen({.address = "192.0.2.1:0"}, &other.service).error().message(), HasSubstr("set cluster_key"));
  Daemon keyed({.identity = {.cluster_key = "k"}});
  EXPECT_TRUE(keyed.runtime->listen({.address = "0.0.0.0:0"}, &keyed.service));
  EXPECT_THAT(keyed.runtime->listen({.address = "192.0.2.1:0"}, &keyed.service).error().message(), HasSubstr("no interface"));
}

// ---- Hello over real connections ----

TEST(Runtime, WrongClusterKeyAndEpochAreRefusedAndCountedOnBothEnds) {
  Daemon server({.identity = {.node_id = NodeId(5), .node_epoch = NodeEpoch(7), .cluster_id = "c", .cluster_key = "right"}});
  std::string address = server.listen();
  auto answer = [&](Identity identity, PeerAddress peer) {
    Daemon client({.identity = identity});
    peer.address = address;
    auto channel = client.runtime->channel(peer);
    auto reply = call(*client.runtime, *channel, text_request("x"));
    EXPECT_EQ(client.metric("millpond_rpc_hello_refused_total{side=\"client\"}"), reply ? 0 : 1);
    return reply ? Status() : reply.error();
  };
  EXPECT_TRUE(answer({.cluster_id = "c", .cluster_key = "right"}, {}).ok());
  EXPECT_TRUE(answer({.cluster_id = "c", .cluster_key = "right"}, {.node_id = NodeId(5), .node_epoch = NodeEpoch(7)}).ok());
  EXPECT_THAT(answer({.cluster_id = "d", .cluster_key = "right"}, {}).text(), HasSubstr("refused: " + address + ": the peer says: this is cluster \"c\""));
  EXPECT_THAT(answer({.cluster_id = "c", .cluster_key = "wrong"}, {}).text(), HasSubstr("does not prove our cluster key"));
  EXPECT_THAT(answer({.cluster_id = "c"}, {}).text(), HasSubstr("the caller has none"));
  Status stale = answer({.cluster_id = "c", .cluster_key = "right"}, {.node_id = NodeId(5), .node_epoch = NodeEpoch(6)});
  EXPECT_EQ(stale.code(), Code::stale);
  EXPECT_THAT(stale.message(), HasSubstr("node 5 of epoch 7, wanted was 5 of epoch 6"));
  EXPECT_EQ(answer({.cluster_id = "c", .cluster_key = "right"}, {.node_id = NodeId(4), .node_epoch = NodeEpoch(7)}).code(), Code::stale);
  // Each refused client has gone; its last frame or its end may still be on the way to the server.
  Time limit = server.runtime->now() + kLong;
  while (server.metric("millpond_rpc_hello_refused_total{side=\"server\"}") < 5 && server.runtime->now() < limit) std::this_thread::yield();
  EXPECT_EQ(server.metric("millpond_rpc_hello_refused_total{side=\"server\"}"), 5);
}

// ---- Unix sockets ----

TEST(Runtime, DescriptorsTravelOverTheUnixSocketAndStay) {
  Directory directory;
  int arena = memfd_create("arena", MFD_CLOEXEC), other = memfd_create("other", MFD_CLOEXEC);
  ASSERT_EQ(ftruncate(arena, 4096), 0);
  ASSERT_EQ(pwrite(arena, "pond", 4, 0), 4);
  std::string address = "unix:" + directory.path + "/s";
  Daemon client({.backoff_min = 1ms, .backoff_max = 1ms});
  auto server = std::make_unique<Daemon>();
  server->listen(address, {arena, other});
  auto channel = client.runtime->channel({.address = address});
  EXPECT_TRUE(channel->shared_fds().empty());
  ASSERT_TRUE(call(*client.runtime, *channel, text_request("x")));
  auto fds = channel->shared_fds();
  ASSERT_EQ(fds.size(), 2u);
  char text[5] = "";
  EXPECT_EQ(pread(fds[0], text, 4, 0), 4);
  EXPECT_STREQ(text, "pond");
  EXPECT_TRUE(fcntl(fds[0], F_GETFD) & FD_CLOEXEC);

  // The daemon restarts with the same arena: the descriptors that we mapped stay the ones that count.
  server = std::make_unique<Daemon>();
  server->listen(address, {arena, other});
  Time limit = client.runtime->now() + kLong;
  while (!call(*client.runtime, *channel, text_request("x")) && client.runtime->now() < limit) {}
  EXPECT_EQ(channel->shared_fds(), fds);
  channel.reset();
  settle(*client.runtime);
  EXPECT_EQ(fcntl(fds[0], F_GETFD), -1);
  close(arena);
  close(other);
}

TEST(Runtime, AStaleSocketFileIsReplacedALiveOneIsNot) {
  Directory directory;
  std::string path = directory.path + "/s";
  {
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);   // as a killed daemon leaves it
    Endpoint endpoint = unix_endpoint(path);
    ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&endpoint.address), endpoint.size), 0);
    close(fd);
  }
  Daemon one, other;
  one.listen("unix:" + path);
  struct stat file;
  ASSERT_EQ(stat(path.c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_THAT(other.runtime->listen({.address = "unix:" + path}, &other.service).error().message(), HasSubstr("another process listens"));
  rlimit former;
  getrlimit(RLIMIT_NOFILE, &former);
  rlimit none{.rlim_cur = 3, .rlim_max = former.rlim_max};   // nothing left to ask the socket with: it may be alive
  setrlimit(RLIMIT_NOFILE, &none);
  EXPECT_FALSE(other.runtime->listen({.address = "unix:" + path}, &other.service).has_value());
  setrlimit(RLIMIT_NOFILE, &former);
  EXPECT_EQ(stat(path.c_str(), &file), 0);
  one.runtime.reset();
  EXPECT_NE(stat(path.c_str(), &file), 0);      // a clean end leaves nothing
  close(open(path.c_str(), O_CREAT | O_WRONLY, 0600));
  EXPECT_THAT(other.runtime->listen({.address = "unix:" + path}, &other.service).error().message(), HasSubstr("no socket is in the way"));
  EXPECT_THAT(other.runtime->listen({.address = "127.0.0.1:0", .shared_fds = {0}}, &other.service).error().message(), HasSubstr("Unix sockets only"));
}

TEST(Runtime, ASharedDirectoryIsMadeForThisUserAlone) {
  Directory directory;
  Daemon server;
  server.listen("unix:" + directory.path + "/made/s");
  struct stat made;
  ASSERT_EQ(stat((directory.path + "/made").c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0777, 0700u);
}

// ---- The end ----

TEST(Runtime, TheEndOfAConnectionIsToldToTheService) {
  Daemon server, client;
  std::promise<ConnectionId> closed;
  std::promise<ConnectionId> opened;
  server.service.on_serve = [&](Request request, std::shared_ptr<Responder> responder) {
    opened.set_value(request.caller.connection);
    responder->answer({.kind = wire::Kind::stat_reply});
  };
  server.service.on_closed = [&](ConnectionId id) { closed.set_value(id); };
  auto channel = client.runtime->channel({.address = server.listen()});
  ASSERT_TRUE(call(*client.runtime, *channel, text_request("x")));
  channel.reset();
  EXPECT_EQ(closed.get_future().get(), opened.get_future().get());
}

TEST(Runtime, CallsInFlightEndWithTheirChannelAndTheirRuntime) {
  Daemon server;
  std::vector<std::shared_ptr<Responder>> kept;
  server.service.on_serve = [&](Request, std::shared_ptr<Responder> responder) { kept.push_back(std::move(responder)); };
  std::string address = server.listen();
  auto client = std::make_unique<Daemon>();
  auto one = client->runtime->channel({.address = address}), other = client->runtime->channel({.address = address});
  auto first = start_call(*client->runtime, *one, text_request("x")), second = start_call(*client->runtime, *other, text_request("y"));
  one.reset();
  EXPECT_EQ(first.get().error().code(), Code::unavailable);
  EXPECT_NE(second.wait_for(0s), std::future_status::ready);
  other.reset();                        // before the runtime, as the contract says
  client.reset();
  EXPECT_EQ(second.get().error().code(), Code::unavailable);
}

TEST(Runtime, EndsWhileCallsAreBeingMade) {
  for (int round = 0; round < 20; ++round) {
    Daemon server;
    std::string address = server.listen();
    std::atomic<int> made{0}, done{0};
    {
      Daemon client;
      std::vector<std::thread> callers;
      for (int t = 0; t < 3; ++t)
        callers.emplace_back([&] {
          auto channel = client.runtime->channel({.address = address});
          for (int i = 0; i < 20; ++i) {
            ++made;
            channel->call(text_request("x"), client.runtime->now() + kLong, {}, [&](Result<Reply>) { ++done; });
          }
        });
      for (auto& caller : callers) caller.join();
    }
    EXPECT_EQ(made, done);
  }
}

TEST(Runtime, TimersRunInOrderAndNotAfterTheirHandle) {
  Daemon daemon;
  auto& runtime = *daemon.runtime;
  std::promise<std::string> said;
  std::string order;
  std::vector<std::shared_ptr<void>> handles;
  runtime.post([&] {
    handles.push_back(runtime.after(3ms, [&] { order += "3"; said.set_value(order); }));
    handles.push_back(runtime.after(1ms, [&] { order += "1"; }));
    auto never = runtime.after(0ms, [&] { order += "x"; });
    handles.push_back(runtime.after(2ms, [&] { order += "2"; }));
  });
  EXPECT_EQ(said.get_future().get(), "123");
  { auto never = runtime.after(1h, [] { FAIL(); }); }
  auto outlives = runtime.after(1h, [] { FAIL(); });
  EXPECT_NE(runtime.random(), runtime.random());
  daemon.runtime.reset();
}

TEST(Settings, HaveTheirRanges) {
  AsioRuntime::Options options;
  auto section = describe(options);
  EXPECT_EQ(section.name(), "rpc");
  for (auto& setting : section.settings()) {
    EXPECT_EQ(setting.secret, setting.name == "cluster_key");
    if (setting.name != "connect_timeout") continue;
    EXPECT_FALSE(setting.set("0ms").ok());
    EXPECT_TRUE(setting.set("3s").ok());
  }
  EXPECT_EQ(options.connect_timeout, 3s);
  for (auto& setting : section.settings()) {
    EXPECT_FALSE(setting.about.empty());
  }
}

}  // namespace
}  // namespace millpond::rpc
