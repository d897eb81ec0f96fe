// The pool as an engine uses it: look up the longest cached prefix, load it, store what was computed.
//
// Blocking calls with a deadline each, safe from any thread; asynchronous underneath. No call waits longer than its
// deadline; a pool that is slow, full or dead looks like a miss.
//
//   auto pool = millpond::Pool::open({.master = "10.0.0.1:7700"});
//   auto plan = pool->lookup(keys);                  // how many leading blocks are cached?
//   pool->load(...); compute the rest; pool->store(...);
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace millpond {

// What a call answered for one key (values are stable; see docs/glossary.md). exists: stored before, or being stored by
// another at this moment; the first bytes stay.
enum class Outcome : uint8_t {
  ok = 0, miss = 1, invalid = 2, no_space = 3, timed_out = 4, unavailable = 5,
  corrupt = 6, stale = 7, refused = 8, overloaded = 9, exists = 10, internal = 11,
};
const char* name(Outcome outcome);

struct PoolOptions {
  std::string master = "127.0.0.1:7700";   // host:port
  std::string tenant = "default";
  std::string namespace_name = "default";  // fingerprint of model, dtype, layout, block size
  std::string transports;                  // "local,shm,tcp"; empty: MILLPOND_TRANSPORTS, else all
  std::string cluster_id = "default";
  std::string cluster_key;                 // empty: MILLPOND_CLUSTER_KEY, else none
  uint64_t memory_bytes = 0;               // > 0: this process also gives so much DRAM to the pool (an embedded node)
  std::string listen = "127.0.0.1:0";      // of the embedded node
  std::chrono::milliseconds open_deadline{5000};
};

struct Error {                             // thrown by open() alone
  Outcome outcome;
  std::string message;
};

// A block to store: its bytes are the concatenation of `pieces`. Memory is the caller's and must stay unchanged until
// the call returns.
struct StoreBlock {
  std::string key;                                        // 1 … 4096 bytes
  std::vector<std::span<const std::byte>> pieces;
  std::string parent;                                     // key of the block before it in the prompt; empty: none known
};
// A block to load: scattered over `pieces` in order. Their total must be at least the block's length.
struct LoadBlock {
  std::string key;
  std::vector<std::span<std::byte>> pieces;
};
struct LoadAnswer {
  Outcome outcome = Outcome::miss;
  uint64_t length = 0;                                    // bytes landed and verified
  std::string owner;                                      // name of the node that had it
  std::string transport;                                  // "local", "shm", "tcp"
};
struct Location {
  std::string node;
  std::string address;
  std::string tier;                                       // "dram"
};
struct Found {                                            // one per key asked
  uint64_t length = 0;                                    // 0: not found
  std::vector<Location> replicas;
};
struct Lookup {
  size_t matched = 0;                                     // leading blocks that are cached
  bool warming = false;                                   // the master is still learning: a miss may be premature
  std::vector<Found> blocks;                              // the `matched` ones, in order
  Outcome outcome = Outcome::ok;                          // not ok: the pool could not answer; matched = 0
  std::shared_ptr<const void> plan;                       // what load(found, …) goes by; copies share it
};

class Pool {
 public:
  // Connects to the master. Throws Error: unavailable (no master at that address by the deadline), refused (cluster id
  // or key), invalid (a bad option).
  static std::unique_ptr<Pool> open(PoolOptions options);
  ~Pool();

  using Deadline = std::chrono::milliseconds;             // 0: the default of the call (100 ms; 1 s + bytes / 200 MB/s)

  Lookup lookup(std::span<const std::string> keys, Deadline deadline = Deadline(0));
  std::vector<Found> locate(std::span<const std::string> keys, Deadline deadline = Deadline(0));
  std::vector<LoadAnswer> load(std::span<const LoadBlock> blocks, Deadline deadline = Deadline(0));
  std::vector<LoadAnswer> load(const Lookup& found, std::span<const LoadBlock> blocks, Deadline deadline = Deadline(0));
  std::vector<Outcome> store(std::span<const StoreBlock> blocks, Deadline deadline = Deadline(0));
  size_t remove(std::span<const std::string> keys, Deadline deadline = Deadline(0));   // how many were there
  Outcome remove_all(Deadline deadline = Deadline(0));
  std::string explain(const std::string& key, Deadline deadline = Deadline(0));        // why a key misses, in words
  std::string stat_json(Deadline deadline = Deadline(0));

 private:
  Pool();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millpond
