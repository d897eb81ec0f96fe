// Walks a list of pieces as one run of bytes and hands it out in runs of any length.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/check.h"

namespace millpond::transfer {

template <typename Span>
class PieceWalk {
 public:
  explicit PieceWalk(std::vector<Span> pieces) : pieces_(std::move(pieces)) {}

  // The next `bytes` bytes, as pieces. REQUIRES: that many are left.
  std::vector<Span> take(uint64_t bytes) {
    std::vector<Span> run;
    while (bytes > 0) {
      MP_CHECK(at_ < pieces_.size(), "{} bytes beyond the last piece", bytes);
      uint64_t step = std::min<uint64_t>(bytes, pieces_[at_].size() - offset_);
      if (step > 0) run.push_back(pieces_[at_].subspan(offset_, step));
      bytes -= step, offset_ += step;
      if (offset_ == pieces_[at_].size()) ++at_, offset_ = 0;
    }
    return run;
  }

 private:
  std::vector<Span> pieces_;
  size_t at_ = 0;
  uint64_t offset_ = 0;
};

// The first `bytes` bytes of `pieces`. REQUIRES: there are that many.
template <typename Span>
std::vector<Span> first_bytes(const std::vector<Span>& pieces, uint64_t bytes) {
  return PieceWalk<Span>(pieces).take(bytes);
}

inline std::vector<ByteSpan> read_only(const std::vector<MutableByteSpan>& pieces) {
  return {pieces.begin(), pieces.end()};
}

}  // namespace millpond::transfer
