// Checksums of a block: one XXH3-64 sum per 64 KiB chunk, and a key-seeded root over the sums and the length.
// Made by the writer from its own copy before any hop, verified by the reader on the landing bytes.
// A block's bytes are the concatenation of its pieces; chunks ignore where one piece ends and the next begins.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"

namespace millpond {

inline constexpr uint64_t kChunkBytes = 64 << 10;

constexpr uint64_t chunk_count(uint64_t length) { return (length + kChunkBytes - 1) / kChunkBytes; }

struct Checksums {
  std::vector<uint64_t> sums;   // chunk_count(length) of them, in order
  uint64_t root = 0;
};

// Binds the sums to key and length: root = XXH3-64(sums, length; seed of the key).
uint64_t checksum_root(std::span<const uint64_t> sums, uint64_t length, uint64_t key_seed);

// Checksums of the bytes in `pieces`.
Checksums checksum(std::span<const ByteSpan> pieces, uint64_t key_seed);

// Sums of `source` while it is copied to `target`, chunk by chunk, so that each chunk is read from memory once.
// Both are lists of pieces of any cut; they have the same total length. The sums are of what was read from `source`.
std::vector<uint64_t> copy_and_sum(std::span<const ByteSpan> source, std::span<const MutableByteSpan> target);

// Same, but the sums are of what now stands in `target` (the reader's check: a source that changes under the copy
// cannot go unseen).
std::vector<uint64_t> copy_and_sum_target(std::span<const ByteSpan> source, std::span<const MutableByteSpan> target);

// True if these bytes have these sums and this root under this key.
bool verifies(std::span<const ByteSpan> pieces, std::span<const uint64_t> sums, uint64_t root, uint64_t key_seed);

uint64_t hash64(ByteSpan bytes, uint64_t seed = 0);   // XXH3-64

}  // namespace millpond
