// Moves blocks between memory here and the node that owns them there. One contract, three ways: local (same process),
// shm (same host), tcp. The caller cannot tell them apart but by speed; on every path the reader verifies the landing
// bytes against the writer's checksums.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/block_id.h"
#include "base/checksum.h"
#include "base/status.h"
#include "base/time.h"
#include "memory/piece.h"

namespace millpond::transfer {

struct ReadItem {
  KeyHash key;
  memory::TargetPieces target;           // total may exceed the block's length: the rest stays untouched
};
struct ReadOutcome {
  Code code = Code::miss;                // ok | miss | corrupt | invalid (target too small; `length` says) | timed_out | unavailable
  uint64_t length = 0;                   // bytes landed and verified when ok
};

struct WriteItem {
  KeyHash key;
  BlockId parent;
  std::string key_text;
  memory::SourcePieces source;
  uint32_t namespace_generation = 0;
};
struct WriteOutcome {
  Code code = Code::unavailable;         // ok | exists | no_space | stale | invalid | timed_out | unavailable | corrupt
  uint32_t namespace_generation = 0;     // the owner's, when stale
};

struct TransferStats {                   // of one call, for replay and bench
  uint64_t bytes = 0;
  uint32_t corrupt = 0;
};

// A node as its neighbours use it.
// Lives on: any thread may call. `done` runs exactly once, by the deadline; after it nothing is written to targets and
// nothing read from sources. With local, `done` may run inside the call, on the calling thread.
class Owner {
 public:
  virtual ~Owner() = default;
  virtual void read(std::vector<ReadItem> items, Time deadline, std::function<void(std::vector<ReadOutcome>)> done) = 0;
  // `visible`: done waits until the master has answered the advertisement (or was found away).
  virtual void write(std::vector<WriteItem> items, Time deadline, bool visible, std::function<void(std::vector<WriteOutcome>)> done) = 0;
  // These did not verify here, twice: the owner hashes again. ok = its copy is good; corrupt = dropped; miss.
  virtual void recheck(std::vector<BlockId> ids, Time deadline, std::function<void(std::vector<Code>)> done) = 0;
  // Lengths of what stands in the table of a node in this process, 0 = not here; empty where that takes a message.
  virtual std::vector<uint64_t> lengths_here(const std::vector<BlockId>&) { return {}; }
  virtual const char* transport() const = 0;   // "local", "shm", "tcp"
};

}  // namespace millpond::transfer
