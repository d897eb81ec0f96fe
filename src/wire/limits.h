// Bounds of what travels. Checked before anything is allocated, on both ends.
#pragma once
#include <cstdint>

namespace millpond::wire {

inline constexpr uint64_t kMessageBytesMax = 16ull << 20;          // the FlatBuffer of one frame
inline constexpr uint64_t kBlockBytesMax = 2ull << 30;             // one block
inline constexpr uint64_t kPayloadBytesMax = kBlockBytesMax;       // the raw payload of one frame
inline constexpr uint64_t kBatchPayloadBytes = 32ull << 20;        // a batch of blocks is cut here (a larger block travels alone)
inline constexpr uint32_t kIdsPerMessageMax = 64u << 10;           // ids in one lookup, read or remove

}  // namespace millpond::wire
