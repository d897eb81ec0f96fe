#include "base/checksum.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "base/check.h"
#include "base/checksum_kernel.h"

namespace millpond {
namespace {

const ChecksumKernel& kernel() {
  static const ChecksumKernel chosen = __builtin_cpu_supports("avx2") ? checksum_kernel_avx2() : checksum_kernel_sse2();
  return chosen;
}

// One per thread, reused: a block of many small pieces must not allocate for each chunk.
void* stream() {
  thread_local std::unique_ptr<void, void (*)(void*)> state(kernel().stream_new(), kernel().stream_free);
  return state.get();
}

// Walks a list of pieces as one run of bytes.
template <typename Span>
class Cursor {
 public:
  explicit Cursor(std::span<const Span> pieces) : pieces_(pieces) { skip_empty(); }
  bool done() const { return at_ == pieces_.size(); }
  size_t contiguous() const { return done() ? 0 : pieces_[at_].size() - offset_; }
  auto* data() const { return pieces_[at_].data() + offset_; }
  void advance(size_t bytes) {
    offset_ += bytes;
    if (offset_ == pieces_[at_].size()) ++at_, offset_ = 0, skip_empty();
  }

 private:
  void skip_empty() {
    while (at_ < pieces_.size() && pieces_[at_].empty()) ++at_;
  }
  std::span<const Span> pieces_;
  size_t at_ = 0;
  size_t offset_ = 0;
};

template <typename Span>
uint64_t total(std::span<const Span> pieces) {
  uint64_t sum = 0;
  for (auto& piece : pieces) sum += piece.size();
  return sum;
}

template <bool of_target>
std::vector<uint64_t> copy_and_sum_impl(std::span<const ByteSpan> source, std::span<const MutableByteSpan> target) {
  uint64_t length = total(source);
  MP_CHECK(length == total(target), "copy of {} bytes into {}", length, total(target));
  std::vector<uint64_t> sums;
  sums.reserve(chunk_count(length));
  Cursor<ByteSpan> from(source);
  Cursor<MutableByteSpan> to(target);
  for (uint64_t left = length; left > 0;) {
    uint64_t chunk = std::min(left, kChunkBytes);
    left -= chunk;
    if (from.contiguous() >= chunk && to.contiguous() >= chunk) {   // the usual case: one call each, chunk stays in cache
      std::memcpy(to.data(), from.data(), chunk);
      sums.push_back(kernel().hash(of_target ? static_cast<const void*>(to.data()) : from.data(), chunk, 0));
      from.advance(chunk), to.advance(chunk);
      continue;
    }
    kernel().stream_reset(stream());
    while (chunk > 0) {
      size_t step = std::min<size_t>({chunk, from.contiguous(), to.contiguous()});
      std::memcpy(to.data(), from.data(), step);
      kernel().stream_update(stream(), of_target ? static_cast<const void*>(to.data()) : from.data(), step);
      from.advance(step), to.advance(step), chunk -= step;
    }
    sums.push_back(kernel().stream_digest(stream()));
  }
  return sums;
}

std::vector<uint64_t> sums_of(std::span<const ByteSpan> pieces) {
  uint64_t left = total(pieces);
  std::vector<uint64_t> sums;
  sums.reserve(chunk_count(left));
  Cursor<ByteSpan> from(pieces);
  while (left > 0) {
    uint64_t chunk = std::min(left, kChunkBytes);
    left -= chunk;
    if (from.contiguous() >= chunk) {
      sums.push_back(kernel().hash(from.data(), chunk, 0));
      from.advance(chunk);
      continue;
    }
    kernel().stream_reset(stream());
    while (chunk > 0) {
      size_t step = std::min<size_t>(chunk, from.contiguous());
      kernel().stream_update(stream(), from.data(), step);
      from.advance(step), chunk -= step;
    }
    sums.push_back(kernel().stream_digest(stream()));
  }
  return sums;
}

}  // namespace

uint64_t hash64(ByteSpan bytes, uint64_t seed) { return kernel().hash(bytes.data(), bytes.size(), seed); }

uint64_t checksum_root(std::span<const uint64_t> sums, uint64_t length, uint64_t key_seed) {
  uint64_t of_sums = kernel().hash(sums.data(), sums.size_bytes(), key_seed);
  return kernel().hash(&length, sizeof length, of_sums);
}

Checksums checksum(std::span<const ByteSpan> pieces, uint64_t key_seed) {
  Checksums result;
  result.sums = sums_of(pieces);
  result.root = checksum_root(result.sums, total(pieces), key_seed);
  return result;
}

std::vector<uint64_t> copy_and_sum(std::span<const ByteSpan> source, std::span<const MutableByteSpan> target) {
  return copy_and_sum_impl<false>(source, target);
}

std::vector<uint64_t> copy_and_sum_target(std::span<const ByteSpan> source, std::span<const MutableByteSpan> target) {
  return copy_and_sum_impl<true>(source, target);
}

bool verifies(std::span<const ByteSpan> pieces, std::span<const uint64_t> sums, uint64_t root, uint64_t key_seed) {
  if (checksum_root(sums, total(pieces), key_seed) != root) return false;
  auto found = sums_of(pieces);
  return std::ranges::equal(found, sums);
}

}  // namespace millpond
