// What the tests of this room share: a small tier, and blocks whose bytes are a function of their key.
#pragma once
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "base/checksum.h"
#include "base/random.h"
#include "tier/dram_tier.h"

namespace millpond::tier::test {

inline Time at(double seconds) { return {std::chrono::duration_cast<Duration>(std::chrono::duration<double>(seconds))}; }

struct Named {
  std::string key;
  KeyHash hash;
  explicit Named(std::string k, Namespace space = {}) : key(std::move(k)), hash(hash_key(space, key)) {}
};

inline ByteVector bytes_of(const Named& name, uint64_t length) {
  ByteVector bytes(length);
  Random random(name.hash.seed);
  for (uint64_t i = 0; i < length; i += 8) {
    uint64_t word = random.next();
    std::memcpy(bytes.data() + i, &word, std::min<uint64_t>(8, length - i));
  }
  return bytes;
}

inline std::unique_ptr<DramTier> open_tier(Metrics& metrics, DramTier::Options options) {
  options.hugepages = false;
  auto tier = DramTier::open(options, make_leaf_lru(), metrics);
  EXPECT_TRUE(tier) << tier.error().text();
  return std::move(*tier);
}

inline BlockSpec spec_of(const Named& name, uint64_t length, BlockId parent = {}, uint32_t generation = 0) {
  return {.id = name.hash.id, .parent = parent, .key = name.key, .length = length, .namespace_generation = generation};
}

inline Result<uint64_t> fill_and_commit(DramTier& tier, Reservation reservation, const Named& name, Time now) {
  auto bytes = bytes_of(name, reservation.length());
  std::vector<ByteSpan> source{bytes};
  auto sums = copy_and_sum(source, reservation.pieces());
  uint64_t root = checksum_root(sums, bytes.size(), name.hash.seed);
  return tier.commit(std::move(reservation), sums, root, now);
}

inline Code store(DramTier& tier, const Named& name, uint64_t length, Time now, BlockId parent = {}, uint32_t generation = 0) {
  auto reservation = tier.reserve(spec_of(name, length, parent, generation), now);
  if (!reservation) return reservation.error().code();
  auto done = fill_and_commit(tier, std::move(*reservation), name, now);
  return done ? Code::ok : done.error().code();
}

// True if the view's bytes are those that the key stands for, by checksum and by comparison.
inline bool good(const View& view, const Named& name) {
  if (!verifies(view.pieces, view.sums, view.root, name.hash.seed)) return false;
  auto expected = bytes_of(name, view.length);
  uint64_t offset = 0;
  for (auto piece : view.pieces) {
    if (std::memcmp(piece.data(), expected.data() + offset, piece.size()) != 0) return false;
    offset += piece.size();
  }
  return offset == view.length;
}

}  // namespace millpond::tier::test
