// Verifies one block where it landed (or copies it there and verifies), slice by slice, so that a large block does not
// hold the loop: a slice of 4 MiB takes about half a millisecond.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "memory/piece.h"
#include "transfer/piece_walk.h"

namespace millpond::transfer {

inline constexpr uint64_t kSliceBytes = 4 << 20;
static_assert(kSliceBytes % kChunkBytes == 0);

class BlockCheck {
 public:
  enum class Verdict { unfinished, good, bad };

  // Bytes that landed in `target`. `sums` must outlive this.
  BlockCheck(memory::TargetPieces target, uint64_t length, std::span<const uint64_t> sums, uint64_t root, uint64_t seed);
  // Bytes that still stand at `source`: each slice is copied first. What is verified is the copy.
  BlockCheck(memory::SourcePieces source, memory::TargetPieces target, uint64_t length, std::span<const uint64_t> sums,
             uint64_t root, uint64_t seed);

  Verdict step();                        // one slice
  uint64_t slice_bytes() const { return std::min(left_, kSliceBytes); }

 private:
  std::optional<PieceWalk<ByteSpan>> source_;
  PieceWalk<MutableByteSpan> target_;
  uint64_t left_;
  std::span<const uint64_t> sums_;
  size_t sum_at_ = 0;
  bool root_good_;
};

}  // namespace millpond::transfer
