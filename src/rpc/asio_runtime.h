// The Runtime of real processes: sockets, a clock, and one thread that everything runs on.
//
// A connection is a socket of its own per Channel. What a call may meet on the way:
//   a payload still being sent at its deadline: its memory is the caller's again, so the connection is closed;
//     other calls on it end with unavailable (millpond_rpc_sends_cut_total);
//   a connect or Hello that failed less than the backoff ago: the call fails at once with that reason.
// Design: docs/design/rpc.md, docs/design/wire.md.
#pragma once
#include <memory>
#include <string>

#include "base/metrics.h"
#include "rpc/runtime.h"

namespace millpond::rpc {

struct Core;

class AsioRuntime : public Runtime {
 public:
  struct Options {
    Identity identity;
    std::string thread_name = "mp-rpc";
    size_t queue_calls_max = 4096;                   // per Channel: what a dead peer may hold up
    Duration connect_timeout = std::chrono::seconds(1);
    Duration hello_timeout = std::chrono::seconds(2);   // both ends
    Duration backoff_min = std::chrono::milliseconds(50);
    Duration backoff_max = std::chrono::seconds(1);
    size_t connections_max = 4096;                   // per listener; more are closed at once
    size_t requests_in_flight_max = 256;             // per connection; the peer's next frames wait in its socket
    Duration stall_timeout = std::chrono::seconds(10);  // half a frame that does not move ends its connection
  };

  // `metrics` and every Service must outlive the runtime. unavailable: no thread or descriptor to be had.
  static Result<std::unique_ptr<AsioRuntime>> create(Options options, Metrics& metrics);
  // Ends every call with unavailable, tells services that their connections closed, and joins the thread.
  // REQUIRES: not on the loop.
  ~AsioRuntime() override;

  Time now() const override;
  uint64_t random() override;
  void post(std::function<void()> task) override;
  std::shared_ptr<void> after(Duration delay, std::function<void()> task) override;
  std::shared_ptr<Channel> channel(PeerAddress peer) override;
  Result<std::string> listen(ListenOptions options, Service* service) override;
  const Identity& identity() const override;

 private:
  explicit AsioRuntime(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace millpond::rpc
