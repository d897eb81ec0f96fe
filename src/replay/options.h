// What a replay needs to know. Stated once: flags, TOML, --help and docs follow from describe().
#pragma once
#include <chrono>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"
#include "config/settings.h"

namespace millpond::replay {

struct Options {
  std::string trace;                                     // path of a Mooncake JSONL trace (the positional argument)
  std::string master = "127.0.0.1:7700";                 // host:port; several: engine i uses the i-th
  size_t engines = 3;
  Bytes block_size = KiB(128);
  size_t layers = 8;
  size_t batch_blocks = 128;
  double speed = 0;
  size_t turns_max = 0;
  double prefill_speed = 10'000;
  Bytes model_bytes_per_token = KiB(128);                // Llama-3.1-8B in bf16: 2 × 32 layers × 8 heads × 128 × 2 B
  Duration lookup_deadline = std::chrono::seconds(1);
  Duration open_deadline = std::chrono::seconds(10);
  Duration turn_deadline = std::chrono::seconds(120);
  std::string tenant = "default";
  std::string transports;
  std::string cluster_id = "default";
  std::string cluster_key;
  std::string json;
  std::string loads;
  std::string label;
  std::string progress = "auto";
};

config::Section describe(Options& options);

// invalid: names the setting, its value and what is allowed. Ranges that one setting alone can break are checked by
// the section already; here stands what several must agree on.
Status validate(const Options& options);

std::vector<std::string> masters_of(const Options& options);

// `label` "arm=pool,size=ample" as JSON members: "\"arm\":\"pool\",\"size\":\"ample\",". invalid: not of that form.
Result<std::string> label_members(const std::string& label);

}  // namespace millpond::replay
