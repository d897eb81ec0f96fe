// The network between simulated hosts, and what can happen to it: delay, links that are cut in one direction or both,
// connections that break, bytes that flip. Every message crosses it encoded by the real codec (wire/frame.h).
//
// A connection is two ordered streams of segments: a frame's header and message, then its payload in chunks. A chunk is
// read from the sender's memory when it is sent and written to the receiver's when it arrives, so memory that changes
// meanwhile tears, as it does with sockets. Nothing is lost or reordered inside a connection; a cut link holds segments
// back (a few hundred KiB, then the sender waits) until it heals or an end gives up. What an end that gave up had sent
// may still arrive, later than what its next connection carried.
// Not simulated: shared memory over Unix sockets, the cluster key's proofs, bandwidth shared between connections.
// Lives on: the world's thread.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "rpc/runtime.h"
#include "sim/world.h"

namespace millpond::sim {

class Connection;
class SimRuntime;

// The host in "10.0.0.7:7000" or "10.0.1.2:7000" (the last two numbers).
std::string host_address(HostId host);
HostId host_of(const std::string& address);

// A message at one end of its way, for those who watch.
struct Passing {
  bool arrived = false;                  // false: it leaves its sender now
  ProcessId source, target;
  uint64_t connection = 0;
  uint64_t request_id = 0;
  bool reply = false;
  wire::Kind kind = wire::Kind::none;
  ByteSpan body;
};

class Network {
 public:
  struct Options {
    Duration delay_min = std::chrono::microseconds(40);
    Duration delay_max = std::chrono::microseconds(250);
    uint64_t bytes_per_second = 2'000'000'000;
    size_t chunk_bytes = 48 << 10;                        // no divisor of a page: chunks and pages do not line up
    size_t window_bytes = 256 << 10;                      // what a cut link holds before its sender waits
    Duration connect_deadline = std::chrono::seconds(2);  // connecting and Hello
    Duration stall_limit = std::chrono::seconds(8);       // an end gives up a connection that moves nothing for so long
    double late_after_close = 0.5;                        // chance that what was under way still arrives when an end gave up
    double duplicate = 0;                                 // chance that a request without payload is served twice (a caller's retry)
    double break_connection = 0;                          // chance per frame that its connection breaks
    double flip_payload = 0;                              // chance per chunk that one byte arrives changed
    double flip_message = 0;                              // chance per frame that a byte of header or message arrives changed
  };

  Network(World& world, Options options) : world_(world), options_(options), random_(world.fork_random()) {}

  Options& options() { return options_; }

  // Links between hosts, one direction each. A cut link loses nothing that was sent: it arrives after the heal.
  void cut(HostId source, HostId target) { cut_.insert({source, target}); }
  void cut_both(HostId a, HostId b) { cut(a, b), cut(b, a); }
  void isolate(HostId host);             // from all others, also those to come; until reconnect or heal
  void reconnect(HostId host);
  void heal(HostId source, HostId target);
  void heal();                           // everything
  bool is_cut(HostId source, HostId target) const;
  bool whole() const { return cut_.empty() && isolated_.empty(); }
  // Both ends of every connection between them learn that it broke.
  void break_connections(HostId a, HostId b);

  // A process is gone. Its peers learn it at once (the kernel closes its sockets), or, `silent`, only by waiting.
  void process_ended(ProcessId process, bool silent);

  using Watch = std::function<void(const Passing&)>;
  void watch(Watch watch) { watches_.push_back(std::move(watch)); }

  // ---- for SimRuntime and the ends of connections ----
  struct Listener {
    SimRuntime* runtime = nullptr;
    rpc::Service* service = nullptr;
  };
  Result<std::string> listen(SimRuntime& runtime, rpc::ListenOptions options, rpc::Service* service);
  void close_listeners(ProcessId process);
  const Listener* listener(const std::string& address) const;
  std::shared_ptr<Connection> make_connection(ProcessId client, ProcessId server);
  void forget(const Connection& connection);
  Duration delay();
  void passing(const Passing& message) const;
  World& world() { return world_; }
  Random& random() { return random_; }

 private:
  void flush(const std::function<bool(HostId, HostId)>& healed);

  World& world_;
  Options options_;
  Random random_;
  std::set<std::pair<HostId, HostId>> cut_;
  std::set<HostId> isolated_;
  std::map<std::string, Listener> listeners_;
  std::map<uint64_t, std::shared_ptr<Connection>> connections_;
  uint64_t connection_last_ = 0;
  uint16_t port_last_ = 40000;
  std::vector<Watch> watches_;
};

}  // namespace millpond::sim
