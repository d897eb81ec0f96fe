// A block's content is a function of its key, so that every loaded byte can be checked by whoever knows the key.
//   seed = XXH3-64(key);  word i (64 bits, little-endian) = mix(seed + i * 0x9E3779B97F4A7C15)
//   mix(z): z ^= z >> 32;  z *= 0xD6E8FEB86659FD93;  z ^= z >> 32
// One multiplication per 8 bytes: made and compared at memory speed, no table, any offset directly.
#pragma once
#include <cstdint>
#include <string_view>

#include "base/bytes.h"

namespace millpond::replay {

uint64_t content_seed(std::string_view key);

// The content's bytes [offset, offset + target.size()). REQUIRES: offset % 8 == 0.
void fill_content(uint64_t seed, uint64_t offset, MutableByteSpan target);

// How many bytes of `bytes` differ from the content at `offset`. REQUIRES: offset % 8 == 0.
uint64_t count_wrong_bytes(uint64_t seed, uint64_t offset, ByteSpan bytes);

}  // namespace millpond::replay
