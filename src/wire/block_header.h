// What a block says about itself: one format for arena, SSD record and wire (grammar: docs/design/block-header.md).
// Pure functions of bytes. The first 8 bytes are the commit word: 0 = not committed, else a seal over all the rest, so
// that a header that was written half, or a bit that flipped, does not decode.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/block_id.h"
#include "base/bytes.h"
#include "base/status.h"

namespace millpond::wire {

inline constexpr uint16_t kBlockHeaderVersion = 1;
inline constexpr size_t kBlockHeaderFixedBytes = 128;   // the sums start here; a later version may start them later
inline constexpr size_t kBlockHeaderCommitBytes = 8;    // the commit word, at offset 0, 8-byte aligned where it is shared

// Spans and key belong to the caller.
struct BlockHeaderView {
  BlockId id;
  BlockId parent;                        // none(): a first block, or unknown
  uint32_t namespace_generation = 0;
  uint64_t length = 0;                   // of the block, 1 … kBlockBytesMax
  uint64_t root = 0;
  uint64_t generation = 0;               // of the slot that holds it
  uint32_t page_offset = 0;              // of a small object inside its only page
  std::span<const uint64_t> sums;        // chunk_count(length)
  std::span<const uint32_t> pages;       // in the arena, in order; empty on SSD and wire
  std::string_view key;                  // 1 … kKeyBytesMax bytes
};

struct BlockHeader {
  BlockId id;
  BlockId parent;
  uint32_t namespace_generation = 0;
  uint64_t length = 0;
  uint64_t root = 0;
  uint64_t generation = 0;
  uint32_t page_offset = 0;
  std::vector<uint64_t> sums;
  std::vector<uint32_t> pages;
  std::string key;
  bool operator==(const BlockHeader&) const = default;
  BlockHeaderView view() const { return {id, parent, namespace_generation, length, root, generation, page_offset, sums, pages, key}; }
};

// Where the key starts in what encode_block_header() writes; the sums start at kBlockHeaderFixedBytes.
constexpr size_t block_header_key_offset(size_t sums, size_t pages) { return kBlockHeaderFixedBytes + sums * 8 + (pages + 1) / 2 * 8; }
// Encoded size; a multiple of 8.
size_t block_header_bytes(size_t sums, size_t pages, size_t key_bytes);

// Writes header and commit word. REQUIRES: target.size() == block_header_bytes(…), counts and lengths in range.
void encode_block_header(const BlockHeaderView& header, MutableByteSpan target);

// How long the header that starts here says it is, from its first kBlockHeaderFixedBytes; for reading chains and logs.
// Answers: miss (commit word 0); corrupt (not a header, or larger than any).
Result<size_t> block_header_bytes(ByteSpan start);

// Bytes beyond the header's own length are ignored. Answers: miss (commit word 0); corrupt (says what).
Result<BlockHeader> decode_block_header(ByteSpan bytes);

}  // namespace millpond::wire
