// One-sided reads and writes between registered memory of two processes: `mooncake.engine.TransferEngine`.
//
// Nothing is cached or kept: a call names a peer ("ip:port"), addresses here and there, and returns 0 only when the bytes
// are in the target's memory. The owner of memory checks each range against what it registered; anything else is refused
// and counted. Same host: the owner's side pulls (or pushes) with process_vm_readv/writev where permitted, else through
// a shared staging ring; else TCP. The log says once per peer which.
// Lives on: any thread. Nothing here throws. Design: docs/design/p2p.md.
#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"

namespace millpond::device { class Driver; }

namespace millpond::p2p {

enum class Opcode : uint8_t { read = 0, write = 1 };

struct Range {
  uint64_t here = 0;                     // address in this process, inside a registered region
  uint64_t there = 0;                    // address in the peer's, inside one of its
  uint64_t bytes = 0;
};

struct Counters {
  uint64_t calls = 0, bytes = 0, refused_ranges = 0, failed = 0, timed_out = 0;
};

class Engine {
 public:
  Engine();                              // cheap: no thread, no socket
  ~Engine();                             // stops; calls in flight end with an error

  // "host" or "host:port" (the port is a wish; taken if free). 0 or -1, with a log line. Any metadata server, protocol and
  // device name are accepted.
  int initialize(const std::string& hostname, const std::string& metadata_server, const std::string& protocol, const std::string& devices);
  int rpc_port() const;                  // 0 before initialize()
  std::string session() const;           // "ip:port" that peers name

  int register_memory(uint64_t address, uint64_t bytes);     // host or device. 0, or negative. Twice the same: counted, 0
  int unregister_memory(uint64_t address);

  // 0: all bytes are there. Negative: refused, dead peer, timeout; nothing more is written after the return.
  int transfer(const std::string& peer, Opcode opcode, std::span<const Range> ranges);
  uint64_t submit(const std::string& peer, Opcode opcode, std::vector<Range> ranges);   // an id > 0 below 2^63; 0: not taken
  int status(uint64_t id);               // 1 done, 0 under way, -1 failed, -2 timed out; an ended id is forgotten once told
  int wait(std::span<const uint64_t> ids);                   // 0 when all are done, else -1

  int probe(const std::string& peer);    // 0: alive now, asked within 1 s
  uint64_t first_buffer(const std::string& peer);            // address of its first registered region; 0: none
  uint64_t allocate(uint64_t bytes);     // managed and registered memory; 0: failed
  int release(uint64_t address, uint64_t bytes);
  Counters counters() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace millpond::p2p
