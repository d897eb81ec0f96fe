// One engine: takes a turn, loads the cached prefix into its paged KV cache, checks every byte, stores what it computed.
// A block lies in `layers` pieces, as in vLLM, each in a slot of its layer's buffer; loads and stores scatter and gather.
// Lives on: its process' only thread.
// Limits: batch_blocks blocks are in memory at once, so that a context of any length fits.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/time.h"
#include "replay/engine_cache.h"
#include "replay/trace.h"

namespace millpond::replay {

// What one turn cost and brought. Travels from an engine process to the coordinator as it stands.
struct TurnRecord {
  uint32_t turn = 0;               // index into Trace.turns
  uint32_t engine = 0;
  uint32_t blocks = 0;             // full blocks of the prompt
  uint32_t matched = 0;            // leading blocks that the lookup found
  uint32_t hits = 0;               // leading blocks that were loaded and right: not prefilled
  uint32_t loads = 0;              // blocks that arrived
  uint32_t load_misses = 0;        // found by the lookup, gone or late at the load
  uint32_t stores = 0;             // blocks stored
  uint32_t stores_existing = 0;    // another engine had stored them meanwhile
  uint32_t stores_failed = 0;      // no space, deadline, peer away
  uint32_t lookup_failed = 0;      // 1: the pool could not answer
  uint32_t reserved = 0;
  uint64_t loaded_bytes = 0;
  uint64_t verified = 0;           // blocks whose every byte was compared with the content of its key
  uint64_t wrong_blocks = 0;
  uint64_t wrong_bytes = 0;
  int64_t lookup_ns = 0;
  int64_t load_ns = 0;             // inside load calls, checks by the pool included, ours not
  int64_t load_cpu_ns = 0;         // processor time of the engine's process inside those calls
  int64_t store_ns = 0;
};

struct EngineOptions {
  uint32_t number = 0;
  Bytes block_size = KiB(128);     // multiple of 8 × layers
  size_t layers = 8;
  size_t batch_blocks = 128;
  std::string line_prefix;         // of every line about a load: JSON members, each followed by a comma
  bool want_lines = false;
  std::function<Time()> clock;
  std::function<Time()> cpu_clock;  // processor time of this process
};

std::string block_key(uint64_t block);   // "block/42"

class Engine {
 public:
  Engine(EngineOptions options, std::unique_ptr<EngineCache> cache);

  // Runs one turn. Appends a JSON line per load to `lines` if the options want them:
  //   {"key", "bytes", "owner", "transport", "checksum" (XXH3-64 of the landed bytes, hex), "ok" (every byte right),
  //    "engine", "session", "turn"}.
  TurnRecord run(const Trace& trace, uint32_t turn, std::string& lines);

 private:
  std::vector<MutableByteSpan> pieces(size_t slot);
  void load_prefix(const Turn& turn, const Lookup& found, std::span<const std::string> keys, TurnRecord& record, std::string& lines);
  bool check(const Turn& turn, const std::string& key, size_t slot, const LoadAnswer& answer, TurnRecord& record, std::string& lines);
  void store_rest(std::span<const std::string> keys, TurnRecord& record);

  EngineOptions options_;
  std::unique_ptr<EngineCache> cache_;
  ByteVector memory_;              // [layer][slot][piece]
  ByteVector gathered_;            // one block, for its checksum
};

}  // namespace millpond::replay
