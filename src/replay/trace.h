// A trace of requests in Mooncake's JSONL form, one JSON object per line:
//   {"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [512-token blocks, prefix-chained]}
// and, where known, "session" (text or number) and "turn". Unknown members are skipped. The last id may stand for a
// partial block, which engines do not cache: only the input_length / 512 full ones are kept.
// Where no line names a session, a request that contains the last full block of an earlier one continues its session.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace millpond::replay {

inline constexpr uint32_t kBlockTokens = 512;
inline constexpr uint64_t kInputTokensMax = 64 << 20;   // per request; more is a broken line

struct Turn {
  uint64_t timestamp_ms = 0;
  uint32_t input_length = 0;       // tokens
  uint32_t output_length = 0;      // tokens
  uint32_t session = 0;            // dense, in order of appearance
  uint32_t turn = 0;               // 0, 1, … within its session, in trace order
  std::vector<uint64_t> blocks;    // ids of the full blocks, in prompt order
};

struct Trace {
  std::vector<Turn> turns;         // by timestamp
  std::vector<std::string> sessions;
  uint64_t input_tokens() const;
  uint64_t full_blocks() const;
  uint64_t unique_blocks() const;
};

// invalid: names origin, line and what is wrong with it. An empty trace is invalid too.
Result<Trace> parse_trace(std::string_view text, std::string_view origin);
// invalid: no such file, or compressed (says how to unpack it).
Result<Trace> read_trace(const std::string& path);

}  // namespace millpond::replay
