// Goal: content is a function of key and offset alone, and no wrong byte goes uncounted.
// Method: fill in different cuts, flip bytes at every kind of place.
#include "replay/content.h"

#include <gtest/gtest.h>

#include <cstring>

namespace millpond::replay {
namespace {

TEST(Content, IsTheSameHoweverItIsCut) {
  uint64_t seed = content_seed("block/7");
  ByteVector whole(4096), cut(4096);
  fill_content(seed, 0, whole);
  for (size_t at = 0; at < cut.size(); at += 512) fill_content(seed, at, MutableByteSpan(cut).subspan(at, 512));
  EXPECT_EQ(whole, cut);
  EXPECT_EQ(count_wrong_bytes(seed, 1024, ByteSpan(whole).subspan(1024, 100)), 0u);
}

TEST(Content, DiffersBetweenKeysAndOffsets) {
  ByteVector bytes(4096);
  fill_content(content_seed("block/7"), 0, bytes);
  EXPECT_GT(count_wrong_bytes(content_seed("block/8"), 0, bytes), 4000u);
  EXPECT_GT(count_wrong_bytes(content_seed("block/7"), 8, bytes), 4000u);
}

TEST(Content, CountsEachWrongByte) {
  uint64_t seed = content_seed("k");
  for (size_t size : {1u, 7u, 8u, 9u, 1000u, 1003u}) {
    ByteVector bytes(size);
    fill_content(seed, 16, bytes);
    EXPECT_EQ(count_wrong_bytes(seed, 16, bytes), 0u) << size;
    bytes[0] ^= std::byte{1};
    uint64_t wrong = 1;
    if (size > 1) {
      bytes[size - 1] ^= std::byte{128};
      ++wrong;
    }
    EXPECT_EQ(count_wrong_bytes(seed, 16, bytes), wrong) << size;
  }
}

TEST(Content, IsWhatTheDocsSay) {
  // seed = 1, word 0: z = 1; z ^= z >> 32 = 1; z * 0xD6E8FEB86659FD93; z ^= z >> 32.
  uint64_t z = 0xD6E8FEB86659FD93ull;
  z ^= z >> 32;
  ByteVector bytes(8);
  fill_content(1, 0, bytes);
  uint64_t word;
  std::memcpy(&word, bytes.data(), 8);
  EXPECT_EQ(word, z);
}

}  // namespace
}  // namespace millpond::replay
