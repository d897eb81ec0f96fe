#include "admin/server.h"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/tcp_stream.hpp>
#include <boost/beast/http.hpp>
#include <charconv>
#include <thread>

#include "base/log.h"
#include "base/reached.h"

namespace millpond::admin {
namespace {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;
using boost::system::error_code;

constexpr auto kDeadline = std::chrono::seconds(2);
constexpr size_t kHeaderBytesMax = 8192;

std::string text(const tcp::endpoint& at) {
  return at.address().is_v6() ? fmt::format("[{}]:{}", at.address().to_string(), at.port())
                              : fmt::format("{}:{}", at.address().to_string(), at.port());
}

Result<tcp::endpoint> parse(const std::string& listen) {
  auto wrong = [&] { return error(Code::invalid, "admin_listen \"{}\" is not an address: write host:port, like 127.0.0.1:7701, or \"\" for no admin port", listen); };
  size_t colon = listen.rfind(':');
  if (colon == std::string::npos || colon == 0) return wrong();
  std::string host = listen.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";   // no resolver: a name that needs DNS has no place here
  uint16_t port = 0;
  const char* end = listen.data() + listen.size();
  auto [after, not_number] = std::from_chars(listen.data() + colon + 1, end, port);
  error_code not_address;
  auto address = asio::ip::make_address(host, not_address);
  if (not_number != std::errc() || after != end || not_address) return wrong();
  return tcp::endpoint(address, port);
}

}  // namespace

struct Server::State {
  State(Options o, Sources s, Metrics& m)
      : options(std::move(o)), sources(std::move(s)), metrics(m),
        requests(m.counter("millpond_admin_requests_total", "Requests that the admin port answered")),
        refused(m.counter("millpond_admin_refused_total", "Requests that the admin port could not understand or does not serve")) {}
  ~State() {
    io.stop();
    if (thread.joinable()) thread.join();
  }

  using Response = http::response<http::string_body>;
  Response answer(const http::request<http::empty_body>& request);
  asio::awaitable<void> serve(tcp::socket socket);
  asio::awaitable<void> accept();

  Options options;
  Sources sources;
  Metrics& metrics;
  Counter& requests;
  Counter& refused;
  std::string address;
  size_t connections = 0;
  asio::io_context io{1};
  tcp::acceptor acceptor{io};
  asio::steady_timer slot_free{io, asio::steady_timer::time_point::max()};
  std::thread thread;
};

Server::State::Response Server::State::answer(const http::request<http::empty_body>& request) {
  Response response(http::status::ok, 11);
  auto say = [&](http::status status, const char* type, std::string body) {
    response.result(status);
    response.set(http::field::content_type, type);
    response.body() = std::move(body);
  };
  auto say_json = [&](const std::function<Result<std::string>()>& source) {
    if (!source) return say(http::status::not_found, "text/plain; charset=utf-8", "this daemon has none\n");
    auto json = source();
    if (json) return say(http::status::ok, "application/json", *std::move(json));
    say(http::status::service_unavailable, "text/plain; charset=utf-8", json.error().text() + "\n");
  };
  auto path = request.target().substr(0, request.target().find('?'));
  if (request.method() != http::verb::get) {
    response.set(http::field::allow, "GET");
    say(http::status::method_not_allowed, "text/plain; charset=utf-8", "this port only answers GET\n");
  } else if (path == "/metrics") {
    say(http::status::ok, "text/plain; version=0.0.4; charset=utf-8", metrics.text());
  } else if (path == "/state") {
    say_json(sources.state_json);
  } else if (path == "/config") {
    say_json(sources.config_json);
  } else if (path == "/healthz") {
    Status health = sources.health ? sources.health() : Status();
    say(health.ok() ? http::status::ok : http::status::service_unavailable, "text/plain; charset=utf-8", (health.ok() ? "ok" : health.text()) + "\n");
  } else if (path == "/") {
    say(http::status::ok, "text/plain; charset=utf-8", "/metrics /state /healthz /config\n");
  } else {
    say(http::status::not_found, "text/plain; charset=utf-8", "not here: try /metrics, /state, /healthz or /config\n");
  }
  (response.result_int() < 400 ? requests : refused).add();
  return response;
}

asio::awaitable<void> Server::State::serve(tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer(kHeaderBytesMax);
  http::request_parser<http::empty_body> parser;
  parser.header_limit(kHeaderBytesMax);
  stream.expires_after(kDeadline);   // once: a client that sends a byte a second does not start it anew
  error_code failed;
  co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, failed));
  Response response;
  if (!failed) {
    response = answer(parser.get());
  } else {
    MP_REACHED("admin request not understood");
    refused.add();
    if (failed == beast::error::timeout || failed == http::error::end_of_stream) co_return;
    response.result(http::status::bad_request);
    response.set(http::field::content_type, "text/plain; charset=utf-8");
    response.body() = "not an HTTP request that this port takes: " + failed.message() + "\n";
  }
  response.keep_alive(false);
  response.set(http::field::cache_control, "no-store");
  response.prepare_payload();
  stream.expires_after(kDeadline);
  co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, failed));
  stream.socket().shutdown(tcp::socket::shutdown_send, failed);
}

asio::awaitable<void> Server::State::accept() {
  for (;;) {
    error_code failed;
    while (connections >= options.connections_max) {
      MP_REACHED("admin connections full");
      co_await slot_free.async_wait(asio::redirect_error(asio::use_awaitable, failed));
    }
    tcp::socket socket(io);
    co_await acceptor.async_accept(socket, asio::redirect_error(asio::use_awaitable, failed));
    if (failed == asio::error::operation_aborted) co_return;
    if (failed) {   // out of file descriptors, say: trying again at once would spin
      asio::steady_timer pause(io, std::chrono::milliseconds(100));
      co_await pause.async_wait(asio::redirect_error(asio::use_awaitable, failed));
      continue;
    }
    ++connections;
    asio::co_spawn(io, serve(std::move(socket)), [this](std::exception_ptr) {
      --connections;
      slot_free.cancel();
    });
  }
}

Server::Server() = default;
Server::~Server() = default;
const std::string& Server::address() const { return state_->address; }

Result<std::unique_ptr<Server>> Server::start(Options options, Sources sources, Metrics& metrics) {
  auto server = std::unique_ptr<Server>(new Server);
  std::string listen = options.listen;
  bool remote = options.remote;
  server->state_ = std::make_unique<State>(std::move(options), std::move(sources), metrics);
  if (listen.empty()) return server;
  MP_TRY(tcp::endpoint wanted, parse(listen));
  if (!wanted.address().is_loopback() && !remote)
    return error(Code::invalid,
                 "admin_listen {} can be reached from other machines, and it has no password: listen on 127.0.0.1, or set admin_remote = yes if that is meant",
                 listen);
  State& state = *server->state_;
  error_code failed;
  state.acceptor.open(wanted.protocol(), failed);
  if (!failed) state.acceptor.set_option(tcp::acceptor::reuse_address(true), failed);
  if (!failed) state.acceptor.bind(wanted, failed);
  if (!failed) state.acceptor.listen(asio::socket_base::max_listen_connections, failed);
  if (failed)
    return error(Code::invalid, "cannot listen on admin_listen {}: {}; set admin_listen to another port, to port 0 for any free one, or to \"\" for none", listen,
                 failed.message());
  state.address = text(state.acceptor.local_endpoint());
  if (!wanted.address().is_loopback()) log::warn("the admin port {} answers everybody who reaches it", state.address);
  asio::co_spawn(state.io, state.accept(), asio::detached);
  state.thread = std::thread([&state] { state.io.run(); });
  return server;
}

}  // namespace millpond::admin
