// Cuts a list of blocks into messages: by payload, by message size and by number. A block larger than a batch travels
// alone.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

namespace millpond::transfer {

inline constexpr uint64_t kBatchMessageBytes = 4ull << 20;   // FlatBuffer part: well below wire::kMessageBytesMax
inline constexpr size_t kBatchesInFlight = 4;                // of one call; more would only queue in the socket

struct Weight {
  uint64_t payload = 0;
  uint64_t message = 0;
  uint64_t group = 0;                    // blocks of two groups never share a batch
};

// Batches of the positions in `chosen`, in order.
std::vector<std::vector<uint32_t>> cut(const std::vector<uint32_t>& chosen, const std::function<Weight(uint32_t)>& weigh);

}  // namespace millpond::transfer
