// Sizes and spans of raw memory.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millpond {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;
using ByteVector = std::vector<std::byte>;

// A size in bytes, settable as "64GiB", printed the same way.
struct Bytes {
  uint64_t count = 0;
  constexpr auto operator<=>(const Bytes&) const = default;
};
constexpr Bytes KiB(uint64_t n) { return {n << 10}; }
constexpr Bytes MiB(uint64_t n) { return {n << 20}; }
constexpr Bytes GiB(uint64_t n) { return {n << 30}; }
std::string text(Bytes bytes);   // "1.5 GiB"

inline ByteSpan as_bytes(std::string_view text) { return {reinterpret_cast<const std::byte*>(text.data()), text.size()}; }
inline std::string_view as_text(ByteSpan bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

template <typename Span>
uint64_t total_bytes(const std::vector<Span>& pieces) {
  uint64_t sum = 0;
  for (auto& piece : pieces) sum += piece.size();
  return sum;
}

}  // namespace millpond
