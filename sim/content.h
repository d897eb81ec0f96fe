// What stands in a simulated block: a function of its key and a version. Usually everybody stores version 0 of a key, as
// engines do; two writers who disagree about a key's bytes store two versions.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace millpond::sim {

// How large this version of the block is: most 64 KiB, some small ones, some of several pages and a bit. At least 16.
uint64_t content_length(std::string_view key, uint32_t version);
void fill_content(std::string_view key, uint32_t version, MutableByteSpan bytes);   // REQUIRES: bytes.size() = its length
// The version that these bytes are, all of them; nullopt: of no version of this key.
std::optional<uint32_t> content_version(std::string_view key, ByteSpan bytes);

}  // namespace millpond::sim
