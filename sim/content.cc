#include "sim/content.h"

#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "base/random.h"

namespace millpond::sim {
namespace {
uint64_t seed_of(std::string_view key, uint32_t version) { return hash64(as_bytes(key), version); }

// Word `i` of a content. Cheap, since every loaded byte is compared; no word of another place, key or version is the same.
uint64_t word(uint64_t seed, uint64_t i) {
  uint64_t x = seed + i * 0x9E3779B97F4A7C15ull;
  return x ^ (x >> 31);
}
uint64_t first_word(std::string_view key, uint32_t version) { return hash64(as_bytes(key)) << 32 | version; }
}  // namespace

uint64_t content_length(std::string_view key, uint32_t version) {
  Random random(seed_of(key, version) ^ 0x6c656e677468ull);
  auto die = random.below(10);
  if (die == 0) return 16 + random.below(8'000);
  if (die == 1) return 16 + random.below(220'000);
  return 64 << 10;
}

void fill_content(std::string_view key, uint32_t version, MutableByteSpan bytes) {
  MP_CHECK(bytes.size() == content_length(key, version), "{} bytes for {} version {}", bytes.size(), key, version);
  auto seed = seed_of(key, version), first = first_word(key, version);
  std::memcpy(bytes.data(), &first, 8);
  for (uint64_t at = 8; at < bytes.size(); at += 8) {
    auto here = word(seed, at / 8);
    std::memcpy(bytes.data() + at, &here, std::min<uint64_t>(8, bytes.size() - at));
  }
}

std::optional<uint32_t> content_version(std::string_view key, ByteSpan bytes) {
  if (bytes.size() < 16) return std::nullopt;
  uint32_t version;
  std::memcpy(&version, bytes.data(), sizeof version);
  if (bytes.size() != content_length(key, version)) return std::nullopt;
  auto seed = seed_of(key, version), first = first_word(key, version);
  uint64_t different = 0, there;
  std::memcpy(&there, bytes.data(), 8);
  different |= there ^ first;
  uint64_t at = 8;
  for (; at + 8 <= bytes.size(); at += 8) {
    std::memcpy(&there, bytes.data() + at, 8);
    different |= there ^ word(seed, at / 8);
  }
  auto last = word(seed, at / 8);
  if (at < bytes.size() && std::memcmp(bytes.data() + at, &last, bytes.size() - at) != 0) different = 1;
  if (different) return std::nullopt;
  return version;
}

}  // namespace millpond::sim
