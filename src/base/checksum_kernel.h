// The hot loops of checksum.cc, compiled once per instruction set. Source of the hash: XXH3 (xxHash 0.8).
#pragma once
#include <cstddef>
#include <cstdint>

namespace millpond {
struct ChecksumKernel {
  uint64_t (*hash)(const void* data, size_t bytes, uint64_t seed);
  void* (*stream_new)();
  void (*stream_reset)(void* stream);
  void (*stream_update)(void* stream, const void* data, size_t bytes);
  uint64_t (*stream_digest)(void* stream);
  void (*stream_free)(void* stream);
};
ChecksumKernel checksum_kernel_sse2();
ChecksumKernel checksum_kernel_avx2();
}  // namespace millpond
