#include "base/block_id.h"

#include <fmt/format.h>

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace millpond {
namespace {
constexpr uint64_t kIdSeed = 0x6d696c6c706f6e64ull;     // "millpond"
constexpr uint64_t kCheckSeed = 0x636865636b73756dull;  // "checksum": independent of the id's

std::string preimage(const Namespace& space, std::string_view key) {
  std::string text;
  text.reserve(space.tenant.size() + space.name.size() + key.size() + 6);
  text.append(space.tenant).push_back('\0');
  text.append(space.name).push_back('\0');
  text.append(reinterpret_cast<const char*>(&space.generation), sizeof space.generation);
  text.append(key);
  return text;
}
}  // namespace

std::string text(const BlockId& id) {
  auto digits = fmt::format("{:016x}{:016x}", id.high, id.low);
  return id.part ? fmt::format("{}/{}", digits, id.part) : digits;
}

NamespaceId Namespace::id() const {
  auto full = tenant + '\0' + name;
  return NamespaceId(XXH32(full.data(), full.size(), 0));
}

KeyHash hash_key(const Namespace& space, std::string_view key, uint16_t part) {
  auto text = preimage(space, key);
  auto hash = XXH3_128bits_withSeed(text.data(), text.size(), kIdSeed);
  KeyHash result;
  result.id = {.high = hash.high64, .low = hash.low64, .namespace_id = space.id().value, .part = part};
  if (result.id.none()) result.id.low = 1;   // none() means "no parent"
  result.seed = XXH3_64bits_withSeed(text.data(), text.size(), kCheckSeed) ^ part;
  return result;
}

Status check_key(std::string_view key) {
  if (key.empty()) return Status(Code::invalid, "the key is empty; give 1 to 4096 bytes");
  if (key.size() > kKeyBytesMax)
    return Status(Code::invalid, "the key has {} bytes; at most {} are allowed: hash it first", key.size(), kKeyBytesMax);
  return {};
}
}  // namespace millpond
