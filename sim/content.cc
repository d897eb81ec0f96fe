#include "sim/content.h"

#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "base/random.h"

namespace millpond::sim {
namespace {
uint64_t seed_of(std::string_view key, uint32_t version) { return hash64(as_bytes(key), version); }

// Calls use(offset, word, bytes of it) for the whole content.
template <typename Use>
bool each_word(std::string_view key, uint32_t version, uint64_t length, Use use) {
  Random random(seed_of(key, version));
  for (uint64_t at = 0; at < length; at += 8) {
    uint64_t word = at == 0 ? (hash64(as_bytes(key)) << 32 | version) : random.next();
    if (!use(at, word, std::min<uint64_t>(8, length - at))) return false;
  }
  return true;
}
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
  each_word(key, version, bytes.size(), [&](uint64_t at, uint64_t word, uint64_t count) {
    std::memcpy(bytes.data() + at, &word, count);
    return true;
  });
}

std::optional<uint32_t> content_version(std::string_view key, ByteSpan bytes) {
  if (bytes.size() < 16) return std::nullopt;
  uint32_t version;
  std::memcpy(&version, bytes.data(), sizeof version);
  if (bytes.size() != content_length(key, version)) return std::nullopt;
  bool same = each_word(key, version, bytes.size(), [&](uint64_t at, uint64_t word, uint64_t count) { return std::memcmp(bytes.data() + at, &word, count) == 0; });
  if (!same) return std::nullopt;
  return version;
}

}  // namespace millpond::sim
