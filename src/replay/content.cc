#include "replay/content.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"

namespace millpond::replay {
namespace {

static_assert(std::endian::native == std::endian::little, "content words are little-endian");

inline uint64_t word(uint64_t seed, uint64_t index) {
  uint64_t z = seed + index * 0x9E3779B97F4A7C15ull;
  z ^= z >> 32;
  z *= 0xD6E8FEB86659FD93ull;
  return z ^ (z >> 32);
}

}  // namespace

uint64_t content_seed(std::string_view key) { return hash64(as_bytes(key)); }

void fill_content(uint64_t seed, uint64_t offset, MutableByteSpan target) {
  MP_CHECK(offset % 8 == 0, "offset {} is not a multiple of 8", offset);
  uint64_t index = offset / 8;
  size_t whole = target.size() / 8;
  for (size_t i = 0; i < whole; ++i) {
    uint64_t w = word(seed, index + i);
    std::memcpy(target.data() + 8 * i, &w, 8);
  }
  uint64_t last = word(seed, index + whole);
  std::memcpy(target.data() + 8 * whole, &last, target.size() % 8);
}

uint64_t count_wrong_bytes(uint64_t seed, uint64_t offset, ByteSpan bytes) {
  MP_CHECK(offset % 8 == 0, "offset {} is not a multiple of 8", offset);
  uint64_t index = offset / 8;
  size_t whole = bytes.size() / 8;
  uint64_t different = 0;   // almost always 0: the loop has no branch on it
  for (size_t i = 0; i < whole; ++i) {
    uint64_t w;
    std::memcpy(&w, bytes.data() + 8 * i, 8);
    different |= w ^ word(seed, index + i);
  }
  uint64_t last = word(seed, index + whole);
  bool tail_differs = std::memcmp(bytes.data() + 8 * whole, &last, bytes.size() % 8) != 0;
  if (different == 0 && !tail_differs) return 0;

  uint64_t wrong = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    uint64_t expected = word(seed, index + i / 8) >> (8 * (i % 8));
    wrong += uint8_t(bytes[i]) != uint8_t(expected);
  }
  return wrong;
}

}  // namespace millpond::replay
