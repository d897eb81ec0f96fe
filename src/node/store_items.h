// The items of a Store or Reserve message, checked: every count fits every other, every length is one a block may have.
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "rpc/runtime.h"
#include "tier/dram_tier.h"

namespace millpond::node {

struct StoreItem {
  tier::BlockSpec spec;                  // the key points into the message
  uint64_t root = 0;
  size_t sum_first = 0;                  // its chunk_count(length) sums start here
};
struct StoreItems {
  std::vector<StoreItem> items;
  std::vector<uint64_t> sums;            // Store only
  uint64_t bytes = 0;                    // all lengths together
  bool visible = true;                   // Store only
};

// invalid names the item and the value; corrupt: not a message of this kind. The result points into `body`.
Result<StoreItems> read_store(ByteSpan body);
Result<StoreItems> read_reserve(ByteSpan body);

}  // namespace millpond::node
