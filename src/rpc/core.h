// What the parts of one AsioRuntime share. Lives on the loop, but for what says otherwise.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "base/random.h"
#include "rpc/asio_runtime.h"
#include "rpc/loop.h"
#include "rpc/rpc_metrics.h"

namespace millpond::rpc {

// Lets one line in 10 s through for each kind of text, and knows how many it kept back.
class LogLimit {
 public:
  // Negative: keep it back. Otherwise how many of this kind were kept back before it.
  int64_t ask(const std::string& kind, Time now);

 private:
  struct Kind {
    Time last;
    int64_t kept_back = 0;
  };
  std::map<std::string, Kind> kinds_;
};

// Something with sockets: a channel, a listener, a connection.
class Part {
 public:
  virtual ~Part() = default;
  virtual void check_stall(Time before) = 0;
  virtual void end() = 0;                            // the runtime ends
};

struct Core {
  Core(AsioRuntime::Options options, Metrics& metrics);

  // A refusal in Hello or on arrival: logged (limited), counted by the caller.
  void log_refusal(const std::string& who, const Status& reason);
  void sweep();                                      // every second: stalls
  void end();                                        // on the loop, last of all

  const AsioRuntime::Options options;                // any thread
  RpcMetrics metrics;                                // any thread
  std::shared_ptr<Loop> loop;                        // any thread
  std::atomic<uint64_t> random_state;                // any thread
  std::atomic<uint64_t> calls_in_flight{0};          // any thread
  uint64_t connection_next = 1;
  uint64_t requests_in_flight = 0;
  size_t open_in = 0, open_out = 0;
  LogLimit log_limit;
  std::set<std::shared_ptr<Part>> parts;
  bool ending = false;
};

}  // namespace millpond::rpc
