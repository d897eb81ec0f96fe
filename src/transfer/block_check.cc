#include "transfer/block_check.h"

#include <algorithm>

namespace millpond::transfer {

BlockCheck::BlockCheck(memory::TargetPieces target, uint64_t length, std::span<const uint64_t> sums, uint64_t root,
                       uint64_t seed)
    : target_(std::move(target)), left_(length), sums_(sums),
      root_good_(sums.size() == chunk_count(length) && checksum_root(sums, length, seed) == root) {}

BlockCheck::BlockCheck(memory::SourcePieces source, memory::TargetPieces target, uint64_t length,
                       std::span<const uint64_t> sums, uint64_t root, uint64_t seed)
    : BlockCheck(std::move(target), length, sums, root, seed) {
  source_.emplace(std::move(source));
}

BlockCheck::Verdict BlockCheck::step() {
  if (!root_good_) return Verdict::bad;   // the sums are of another key or length: no need to look at bytes
  uint64_t bytes = slice_bytes();
  auto target = target_.take(bytes);
  auto found = source_ ? copy_and_sum_target(source_->take(bytes), target) : checksum(read_only(target), 0).sums;
  if (!std::ranges::equal(found, sums_.subspan(sum_at_, found.size()))) return Verdict::bad;
  sum_at_ += found.size();
  left_ -= bytes;
  return left_ == 0 ? Verdict::good : Verdict::unfinished;
}

}  // namespace millpond::transfer
