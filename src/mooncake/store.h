// What Mooncake's store API means on Millpond: the calls of `mooncake.store` with their return codes, blocking, from any
// thread. The Python package `mooncake` is a thin shell over this; the pool underneath is client + embedded node.
//
// Three things are added to the client: an answer of 1 is a promise (the block stays loadable for promise_ttl), the order
// of a prompt is learnt from existence calls (prefix_order.h), and what was promised is remembered (promise_memory.h).
// Lives on: any thread; a call uses its caller's thread and the runtime's one. Nothing here throws.
// Design: docs/design/mooncake.md. The meaning of every call and code: the Mooncake API as vLLM 0.32, SGLang 0.5.23 and
// LMCache 0.5.6 use it (docs/engines.md).
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "mooncake/code.h"
#include "mooncake/settings.h"

namespace millpond::device { class Driver; }

namespace millpond::mooncake {

struct Setup {
  std::string local_hostname = "localhost";   // "host" or "host:port": where this process's node is advertised and listens
  uint64_t global_segment_size = 0;           // bytes of DRAM this process gives to the pool; 0: none
  uint64_t local_buffer_size = 0;             // accepted, never allocated: nothing is copied through a buffer
  std::string protocol = "tcp";               // any; what is not at hand is replaced, with one log line
  std::string rdma_devices;
  std::string master_server_addr = "127.0.0.1:50051";
  std::string tenant = "default";
};

struct PutConfig {                            // the fields of ReplicateConfig that mean something here
  uint64_t replica_num = 1;                   // 0: invalid_params
  std::string preferred_segment;              // "host:port" or a node's name; a hint
  bool with_hard_pin = false;
  bool soft_pin = false;
  bool prefer_alloc_in_same_node = false;     // legal with the multi-buffer calls only; the shell checks
};

// Keys and their memory, flat: the pieces of keys[i] are pieces[ends[i-1] … ends[i]) (ends[-1] = 0). For a put they are
// read only. REQUIRES: ends.size() == keys.size(), ends never falls, ends.back() == pieces.size().
struct Batch {
  std::vector<std::string> keys;
  std::vector<MutableByteSpan> pieces;
  std::vector<uint32_t> ends;
};

enum class Memory : uint8_t {
  registered,   // raw pointers of the caller: each piece must lie in a registered region, else invalid_params for its key
  owned,        // memory of an object that the shell holds for the call
};

struct Replica { std::string node; std::string address; std::string tier; uint64_t length = 0; };

class Store {
 public:
  explicit Store(Settings settings = settings_from_environment());   // cheap: no thread, no socket
  ~Store();                                   // as close()

  // ok; rpc_fail after open_deadline without a master; invalid_params. A second setup() after close() works; on an open
  // store it answers ok and changes nothing, with a log line. After a fork the child's calls answer rpc_fail until a setup().
  Code setup(Setup setup);
  Code close();                               // ok, also the second time. Calls in flight end first.
  bool ready() const;                         // set up, not closed, not forked
  std::string hostname() const;               // "host:port" of this process's node, or of the client; "" before setup()
  int health() const;                         // 0: not set up, 1: set up, 2: set up and the master answers

  Code register_buffer(void* base, uint64_t size);   // host or device memory; overlapping what is registered: ok, counted
  Code unregister_buffer(void* base);

  // 1: stored, of a length this client can use, and loadable for promise_ttl from now. 0: anything else. Each key for itself.
  std::vector<int> exist(std::span<const std::string> keys);
  // Per key 0 (stored now, or stored before: the first bytes stay) or a negative code.
  std::vector<int64_t> put(const Batch& batch, const PutConfig& config, Memory memory);
  std::vector<int64_t> upsert(const Batch& batch, const PutConfig& config, Memory memory);   // removes first
  // Per key its length, landed and verified, or a negative code. Never 0.
  std::vector<int64_t> get(const Batch& batch, Memory memory);
  // Per key its length, or object_not_found; rpc_fail without an answer.
  std::vector<int64_t> size(std::span<const std::string> keys);
  std::vector<std::vector<Replica>> replicas(std::span<const std::string> keys);

  std::vector<int> remove(std::span<const std::string> keys);        // per key 0 or object_not_found
  int64_t remove_by_regex(const std::string& pattern);               // how many, or a negative code
  int64_t remove_all();                                              // how many were known, or a negative code

  std::string stat_json() const;                                     // counters of this client, and the settings in force

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace millpond::mooncake
