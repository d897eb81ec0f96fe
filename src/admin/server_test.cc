// Goal: the four pages answer; whatever else a client sends gets an error or is cut off, and the next client is served.
// Method: a real server on a free loopback port, spoken to over a plain socket.
#include "admin/server.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "admin/settings.h"
#include "base/log.h"

namespace millpond::admin {
namespace {
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class Socket {
 public:
  explicit Socket(const std::string& address) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(uint16_t(std::stoi(address.substr(address.rfind(':') + 1))));
    inet_pton(AF_INET, "127.0.0.1", &at.sin_addr);
    timeval limit{10, 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&at), sizeof at), 0);
  }
  ~Socket() { close(fd_); }
  void send(std::string_view bytes) { [[maybe_unused]] auto sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  std::string rest() {
    std::string all;
    char some[4096];
    for (ssize_t n; (n = recv(fd_, some, sizeof some, 0)) > 0;) all.append(some, size_t(n));
    return all;
  }

 private:
  int fd_;
};

std::string ask(const std::string& address, std::string_view request) {
  Socket socket(address);
  socket.send(request);
  return socket.rest();
}
std::string get(const std::string& address, const std::string& path) { return ask(address, "GET " + path + " HTTP/1.1\r\nHost: x\r\n\r\n"); }

struct AdminServer : testing::Test {
  Metrics metrics;
  Status health;
  std::unique_ptr<Server> start(Options options = {}) {
    auto server = Server::start(options, {.state_json = [] { return Result<std::string>("{\"nodes\":2}"); },
                                          .config_json = []() -> Result<std::string> { return error(Code::timed_out, "the loop is busy"); },
                                          .health = [this] { return health; }}, metrics);
    EXPECT_TRUE(server) << (server ? "" : server.error().text());
    return std::move(*server);
  }
};

TEST_F(AdminServer, serves_its_pages) {
  metrics.counter("millpond_test_total", "A \"test\"", "reason=\"no_space\"").add(3);
  auto server = start();
  EXPECT_THAT(get(server->address(), "/metrics"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("version=0.0.4"), HasSubstr("millpond_test_total{reason=\"no_space\"} 3")));
  EXPECT_THAT(get(server->address(), "/state"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("application/json"), HasSubstr("\r\n\r\n{\"nodes\":2}")));
  EXPECT_THAT(get(server->address(), "/state?pretty"), StartsWith("HTTP/1.1 200"));
  EXPECT_THAT(get(server->address(), "/config"), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("the loop is busy")));
  EXPECT_THAT(get(server->address(), "/healthz"), AllOf(StartsWith("HTTP/1.1 200"), HasSubstr("ok\n")));
  health = Status(Code::unavailable, "no master");
  EXPECT_THAT(get(server->address(), "/healthz"), AllOf(StartsWith("HTTP/1.1 503"), HasSubstr("no master")));
  EXPECT_THAT(get(server->address(), "/"), HasSubstr("/metrics"));
}

TEST_F(AdminServer, refuses_what_it_does_not_serve) {
  auto server = start();
  struct { std::string request; const char* answer; } table[] = {
      {"GET /secret HTTP/1.1\r\n\r\n", "HTTP/1.1 404"},
      {"POST /state HTTP/1.1\r\nContent-Length: 0\r\n\r\n", "HTTP/1.1 405"},
      {"DELETE /state HTTP/1.1\r\n\r\n", "HTTP/1.1 405"},
      {"POST /state HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n", "HTTP/1.1 400"},
      {"nonsense\r\n\r\n", "HTTP/1.1 400"},
      {std::string("\x16\x03\x01\x02\x00\x01\x00\x01", 8) + std::string(64, '\0'), "HTTP/1.1 400"},   // a TLS hello
      {"GET /" + std::string(20'000, 'a') + " HTTP/1.1\r\n\r\n", "HTTP/1.1 400"}};
  for (auto& row : table) {
    std::string answer = ask(server->address(), row.request);
    // A request longer than the limit may be cut off by a reset before the answer is read.
    if (row.request.size() > 10'000 && answer.empty()) continue;
    EXPECT_THAT(answer, StartsWith(row.answer)) << row.request.substr(0, 40);
  }
  EXPECT_GE(metrics.counter("millpond_admin_refused_total", "").value(), std::size(table));
  EXPECT_THAT(get(server->address(), "/healthz"), StartsWith("HTTP/1.1 200"));
}

TEST_F(AdminServer, silent_clients_take_their_slots_no_longer_than_the_deadline) {
  auto server = start({.connections_max = 2});
  Socket silent(server->address()), slow(server->address());
  slow.send("GET /healthz HTT");
  EXPECT_THAT(get(server->address(), "/healthz"), StartsWith("HTTP/1.1 200"));   // waits until one of them is cut off
  EXPECT_EQ(silent.rest(), "");
  EXPECT_EQ(slow.rest(), "");
}

TEST_F(AdminServer, says_which_setting_to_change) {
  auto server = start();
  auto refused = [&](Options options) {
    auto other = Server::start(options, {}, metrics);
    EXPECT_FALSE(other);
    return other ? "" : other.error().text();
  };
  EXPECT_THAT(refused({.listen = server->address()}), AllOf(HasSubstr(server->address()), HasSubstr("in use"), HasSubstr("admin_listen")));
  EXPECT_THAT(refused({.listen = "0.0.0.0:0"}), AllOf(HasSubstr("0.0.0.0:0"), HasSubstr("admin_remote = yes")));
  EXPECT_THAT(refused({.listen = "[::]:0"}), HasSubstr("admin_remote = yes"));
  for (auto* nonsense : {"7701", ":7701", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "example.org:80", "127.0.0.1:80x"})
    EXPECT_THAT(refused({.listen = nonsense}), AllOf(HasSubstr(nonsense), HasSubstr("host:port")));
}

TEST_F(AdminServer, can_be_remote_when_told_and_off_when_empty) {
  std::string logged;
  log::set_sink([&](log::Level, std::string_view line) { logged += line; });
  EXPECT_NE(start({.listen = "0.0.0.0:0", .remote = true})->address(), "");
  log::set_sink(nullptr);
  EXPECT_THAT(logged, HasSubstr("answers everybody"));
  EXPECT_EQ(start({.listen = ""})->address(), "");
}

TEST(AdminSettings, stand_in_the_daemons_table) {
  Options options;
  config::Section section("node", "");
  describe(options, section);
  std::vector<config::Section> all{section};
  ASSERT_TRUE(config::load_toml_text("[node]\nadmin_listen = \"\"\nadmin_remote = true", "test", all).ok());
  EXPECT_EQ(options.listen, "");
  EXPECT_TRUE(options.remote);
}

}  // namespace
}  // namespace millpond::admin
