// What an owner answered to a Read, checked field by field: everything in it came from another process.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/kind.h"

namespace millpond::transfer {

struct BlockAnswer {
  bool here = false;                     // false: nothing below counts
  bool ask_again = false;                // the owner's answer was full before this block: it may be here
  uint64_t length = 0;
  uint64_t root = 0;
  std::span<const uint64_t> sums;        // chunk_count(length) of them, inside the reply's body
  std::span<const uint32_t> pages;       // with places, inside the body
  uint32_t page_offset = 0;
  uint16_t arena = 0;
};
struct ReadAnswer {
  std::vector<BlockAnswer> blocks;       // one per id asked
  uint64_t page_bytes = 0;
  uint64_t total_bytes = 0;              // of the blocks that are here
};

// The answer lives as long as `body`. corrupt: says which field cannot be. Pages are not checked against any mapping.
Result<ReadAnswer> parse_read_reply(wire::Kind kind, ByteSpan body, size_t asked);

// Memory inside `arena` that these pages name, the first `length` bytes of it. corrupt: not all of it lies inside.
// `offset`: of a small object in its only page.
Result<std::vector<MutableByteSpan>> pieces_of_pages(MutableByteSpan arena, uint64_t page_bytes,
                                                     std::span<const uint32_t> pages, uint64_t offset, uint64_t length);

}  // namespace millpond::transfer
