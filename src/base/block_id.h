// What a block is called everywhere: wire, header, directory. 24 bytes, the same in memory and in messages.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/id.h"
#include "base/status.h"

namespace millpond {

inline constexpr size_t kKeyBytesMax = 4096;

// high, low: XXH3-128 over (tenant, namespace name, namespace generation, key). `part`: TP/PP/group rank, 0 = opaque.
struct BlockId {
  uint64_t high = 0;
  uint64_t low = 0;
  uint32_t namespace_id = 0;
  uint16_t part = 0;
  uint16_t zero = 0;
  constexpr auto operator<=>(const BlockId&) const = default;
  constexpr bool none() const { return high == 0 && low == 0; }   // no parent
};
static_assert(sizeof(BlockId) == 24);
std::string text(const BlockId& id);   // 32 hex digits, "/part" when not 0

struct BlockIdHash {   // the id is a hash already
  using is_avalanching = void;
  size_t operator()(const BlockId& id) const { return id.low ^ (uint64_t(id.part) * 0x9E3779B97F4A7C15ull); }
};

// Whose blocks, under which name. `generation` rises with every remove_all: blocks of an older generation have other
// ids and other checksum seeds, so they can neither be found nor verified.
struct Namespace {
  std::string tenant = "default";
  std::string name = "default";
  uint32_t generation = 0;
  NamespaceId id() const;   // interned: 32-bit hash of tenant and name; the master refuses a second name with the same hash
};

// Id and checksum seed of one key. The seed is a second, independent hash of the full key, so a collision of ids
// cannot verify. REQUIRES: check_key(key).ok().
struct KeyHash {
  BlockId id;
  uint64_t seed = 0;
};
KeyHash hash_key(const Namespace& space, std::string_view key, uint16_t part = 0);
Status check_key(std::string_view key);   // invalid: empty, or longer than kKeyBytesMax

}  // namespace millpond
