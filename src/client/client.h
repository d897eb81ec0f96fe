// Lookup, load, store, remove: asynchronous, on a Runtime. The blocking public API (include/millpond/pool.h) and the
// Python package are thin shells over this.
// Lives on: any thread may call; callbacks run on the runtime's loop. Design: docs/design/client.md.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/status.h"
#include "rpc/runtime.h"
#include "transfer/connect.h"

namespace millpond::client {

struct Options {
  std::string master = "127.0.0.1:7700";
  std::string tenant = "default";
  std::string namespace_name = "default";
  transfer::Transports transports;
  Duration lookup_deadline = std::chrono::milliseconds(100);
  Duration move_deadline = std::chrono::seconds(1);     // load and store: this + bytes / move_rate
  uint64_t move_rate = 200'000'000;                     // bytes per second
  Duration breaker_open = std::chrono::seconds(1);      // a node that failed is not asked again for so long
};

struct Located {                               // one replica of one block
  NodeId node_id{};
  std::string node_name;
  std::string address;
  uint8_t tier = 0;
};

// What a lookup found. Load with it; it pins nothing.
struct Plan {
  size_t matched = 0;                          // prefix: leading blocks found
  std::vector<std::string> keys;               // as asked
  std::vector<uint64_t> lengths;               // per key; 0 = not found
  std::vector<std::vector<Located>> replicas;  // per key
  bool warming = false;
};

struct StoreItem {
  std::string key;
  memory::SourcePieces pieces;                 // the block = their concatenation
  std::string parent;                          // key of the block before it; empty: first, or unknown
};
struct LoadItem {
  std::string key;
  memory::TargetPieces pieces;
};
struct StoreOutcome { Code code = Code::unavailable; std::string owner; };   // ok; exists (stored, or being stored by another: the first bytes stay); no_space; …
struct LoadOutcome { Code code = Code::miss; uint64_t length = 0; std::string owner; const char* transport = ""; };

// What owners said to "keep these for a while". A promise is the owner's: it evicts nothing that it has promised.
struct Promised {
  Code code = Code::unavailable;               // ok: loadable until the answer's time + ttl; miss; no_space: the budget of promises is full; unavailable
  uint64_t length = 0;
  NodeId node{};                               // who promised
};
struct Promises {
  std::vector<Promised> keys;                  // per key asked
  Duration ttl{};                              // the shortest of the owners asked
};

class Client {
 public:
  // `local`: a node in this process (embedded), asked first and stored to first; may be null.
  Client(Options options, rpc::Runtime& runtime, Metrics& metrics, std::shared_ptr<transfer::Owner> local = nullptr, NodeId local_id = {});
  ~Client();                                   // calls in flight end with unavailable

  // Reaches the master and learns the namespace's generation and the cluster's view.
  void open(Time deadline, std::function<void(Status)> done);

  void lookup(std::vector<std::string> keys, Time deadline, std::function<void(Result<Plan>)> done);   // longest prefix
  void locate(std::vector<std::string> keys, Time deadline, std::function<void(Result<Plan>)> done);   // each key for itself
  // Each key for itself: the nearest owner that has it is asked to keep it for its promise_ttl, renewed by each call. Keys
  // of a node in this process need no message; the rest take one to the master and one to each owner. A master away: what
  // stands here is the answer, the rest `unavailable`.
  void promise(std::vector<std::string> keys, Time deadline, std::function<void(Result<Promises>)> done);
  // One outcome per item, in order. Loads what can be had by the deadline; tries the next replica when one fails.
  void load(std::vector<LoadItem> items, Time deadline, std::function<void(std::vector<LoadOutcome>)> done);
  void load(const Plan& plan, std::vector<LoadItem> items, Time deadline, std::function<void(std::vector<LoadOutcome>)> done);  // no second lookup
  void store(std::vector<StoreItem> items, Time deadline, std::function<void(std::vector<StoreOutcome>)> done);
  void remove(std::vector<std::string> keys, Time deadline, std::function<void(Result<size_t>)> done);   // how many were there
  void remove_all(Time deadline, std::function<void(Status)> done);   // everything of this tenant and namespace
  void explain(std::string key, Time deadline, std::function<void(Result<std::string>)> done);
  void stat(Time deadline, std::function<void(Result<std::string>)> done);    // the master's state as JSON

  Duration move_deadline(uint64_t bytes) const;
  const Options& options() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace millpond::client
