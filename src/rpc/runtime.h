// What a shell may ask of the world: the time, a timer, a peer. Two implementations: rpc/asio_runtime.h (sockets and a
// thread) and sim/ (virtual time and seeded faults). Services, clients and nodes are written against this alone, so a
// whole cluster runs in one process from one seed.
//
// Lives on: one loop. Every callback (task, timer, Done, Service) runs on the runtime's loop, never inside the call
// that caused it. Calls may come from any thread unless said otherwise.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/id.h"
#include "base/status.h"
#include "base/time.h"
#include "wire/kind.h"

namespace millpond::rpc {

// Where raw payload goes, straight from the socket: pieces in order, their total = the payload's length.
// `state` is kept until the message is handed over (a request's reservation, say) and dropped if it never arrives whole.
struct Landing {
  std::vector<MutableByteSpan> pieces;
  std::shared_ptr<void> state;
};

// One message out. `payload` is read while it is sent: it must stay mapped until the call ends (its content may
// change: readers verify checksums); `keep` is released then.
struct Message {
  wire::Kind kind = wire::Kind::none;
  ByteVector body;                       // a finished FlatBuffer of this kind
  std::vector<ByteSpan> payload;
  std::shared_ptr<const void> keep;
};

struct Reply {
  wire::Kind kind = wire::Kind::none;    // never `failure`: that arrives as the Status in it
  ByteVector body;
  uint64_t payload_bytes = 0;            // landed where the caller's LandReply said
};

using Done = std::function<void(Result<Reply>)>;
// Called once the reply's message is here and before its payload: says where the payload goes. An error answers the
// call with that error and drains the payload. Absent: a payload is an error (corrupt).
using LandReply = std::function<Result<Landing>(wire::Kind kind, ByteSpan body, uint64_t payload_bytes)>;

// A way to one peer: connects when first used, says Hello, reconnects after a loss, multiplexes.
class Channel {
 public:
  virtual ~Channel() = default;          // calls in flight end with unavailable

  // Sends a request. `done` runs exactly once, at the deadline at the latest; after it has run nothing more is written
  // to landing memory and nothing is read from the payload.
  // Answers: timed_out; unavailable (cannot connect, connection lost, breaker open); refused (Hello); corrupt; overloaded
  // (more than Options.queue_calls_max in flight); or the Status in the peer's Failure.
  virtual void call(Message request, Time deadline, LandReply land, Done done) = 0;

  // Memory the peer shared over a Unix socket (rpc::ListenOptions.shared_fds), valid while the Channel lives; empty for TCP
  // or before the first successful call.
  virtual std::vector<int> shared_fds() const { return {}; }
};

// Whom to call and who we expect to be there.
struct PeerAddress {
  std::string address;                   // "host:port" ("[::1]:7000"), or "unix:/path"
  NodeId node_id{};                      // not 0: Hello must answer with this id and epoch, else stale
  NodeEpoch node_epoch{};
};

// Who calls.
struct Caller {
  ConnectionId connection{};
  uint8_t role = 0;                      // wire::Role
  NodeId node_id{};
  NodeEpoch node_epoch{};
  std::string tenant;
  bool same_host = false;                // over the Unix socket
  std::string address;                   // of the peer, for logs
};

struct Request {
  Caller caller;
  wire::Kind kind = wire::Kind::none;
  ByteVector body;
  uint64_t payload_bytes = 0;
  Landing landing;                       // what Service::land answered
  Time deadline;                         // on this runtime's clock; expired requests are not served
};

// Answers one request, exactly once, from any thread. Dropped unanswered: the caller gets `internal`.
class Responder {
 public:
  virtual ~Responder() = default;
  virtual void answer(Message reply) = 0;
  void fail(Status status);              // a Failure message
};

// What a daemon does with requests. Runs on the runtime's loop.
class Service {
 public:
  virtual ~Service() = default;
  // Where a request's payload goes, before it is read. Default: a request with payload is refused.
  virtual Result<Landing> land(const Request& request);
  virtual void serve(Request request, std::shared_ptr<Responder> responder) = 0;
  virtual void closed(ConnectionId) {}   // the connection ended: what it reserved returns
};

struct ListenOptions {
  std::string address;                   // "127.0.0.1:0", "[::]:7000", "unix:/path"; port 0 = any
  std::vector<int> shared_fds;           // Unix only: handed to each peer of the same user after Hello
};

// Who we are, in every Hello of this runtime.
struct Identity {
  uint8_t role = 0;                      // wire::Role
  NodeId node_id{};
  NodeEpoch node_epoch{};
  MasterTerm master_term{};
  std::string cluster_id = "default";
  std::string tenant = "default";
  std::string cluster_key;               // empty: loopback and Unix only (listening elsewhere is invalid)
};

class Runtime {
 public:
  virtual ~Runtime() = default;

  virtual Time now() const = 0;
  virtual uint64_t random() = 0;
  virtual void post(std::function<void()> task) = 0;
  // Runs `task` after `delay`. The handle cancels it when destroyed (from the loop: it will not run any more).
  virtual std::shared_ptr<void> after(Duration delay, std::function<void()> task) = 0;

  // A new way to a peer with a connection of its own. The Channel must not outlive the runtime.
  virtual std::shared_ptr<Channel> channel(PeerAddress peer) = 0;

  // Serves requests until the runtime ends. Answers the address with the real port. invalid: port in use, not
  // loopback without a cluster key, no such interface: says which.
  virtual Result<std::string> listen(ListenOptions options, Service* service) = 0;

  virtual const Identity& identity() const = 0;
};

}  // namespace millpond::rpc
