// HTTP for people and tools, read-only: /metrics (Prometheus), /state and /config (JSON), /healthz.
//
// Lives on: a thread of its own, so that a daemon whose loop is stuck still says so. Answers are made one at a time.
// Limits: GET only; requests of 8 KiB; 2 s to send one and 2 s to take the answer; connections_max at once, later ones
// wait in the kernel's queue. Nobody is asked for a password: that is why it listens on loopback unless told otherwise.
// Design: docs/design/admin.md.
#pragma once
#include <functional>
#include <memory>
#include <string>

#include "base/metrics.h"
#include "base/status.h"

namespace millpond::admin {

struct Options {
  std::string listen = "127.0.0.1:0";   // host:port; port 0 = any free one; empty: no admin port
  bool remote = false;                  // allow a `listen` that other machines can reach
  size_t connections_max = 32;          // a scraper, a few people, and room for one bad client
};

// What the pages are made of, asked on the admin thread at each request. A function that must not wait for ever: it
// delays the other pages. An error becomes a 503 with its message.
struct Sources {
  std::function<Result<std::string>()> state_json;
  std::function<Result<std::string>()> config_json;
  std::function<Status()> health;       // absent: healthy as long as we answer
};

class Server {
 public:
  // `metrics` must outlive the server. invalid: not an address, port in use, not loopback without `remote`; says which
  // setting to change.
  static Result<std::unique_ptr<Server>> start(Options options, Sources sources, Metrics& metrics);
  ~Server();                            // after it no source is asked any more
  const std::string& address() const;   // "127.0.0.1:7701"; empty when `listen` was

 private:
  Server();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millpond::admin
