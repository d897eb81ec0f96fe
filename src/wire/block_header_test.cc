// Goal: a header decodes to what was encoded, and nothing else decodes.
// Method: round trips over shapes; then every single flipped bit, every cut, and random junk.
#include "wire/block_header.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "base/random.h"
#include "wire/limits.h"

namespace millpond::wire {
namespace {

BlockHeader make(uint64_t length, size_t pages, size_t key_bytes) {
  Random random(length + pages);
  BlockHeader header{.id = {random.next(), random.next(), 7, 3, 0}, .parent = {random.next(), random.next(), 7, 3, 0},
                     .namespace_generation = 5, .length = length, .root = random.next(), .generation = (2ull << 32) | 9};
  if (pages == 1) header.page_offset = 8192;
  for (uint64_t i = 0; i < chunk_count(length); ++i) header.sums.push_back(random.next());
  for (size_t i = 0; i < pages; ++i) header.pages.push_back(uint32_t(random.next()));
  for (size_t i = 0; i < key_bytes; ++i) header.key += char(random.next());
  return header;
}

ByteVector encode(const BlockHeader& header) {
  ByteVector bytes(block_header_bytes(header.sums.size(), header.pages.size(), header.key.size()));
  encode_block_header(header.view(), bytes);
  return bytes;
}

TEST(BlockHeader, RoundTrips) {
  for (auto& header : {make(1, 0, 1), make(4096, 1, 33), make(2 << 20, 32, 120), make(40 << 20, 640, 4096), make(kBlockBytesMax, 32768, 9)}) {
    auto bytes = encode(header);
    EXPECT_EQ(bytes.size() % 8, 0u);
    auto back = decode_block_header(bytes);
    ASSERT_TRUE(back) << back.error().text();
    EXPECT_EQ(*back, header);
    EXPECT_EQ(*block_header_bytes(ByteSpan(bytes).first(kBlockHeaderFixedBytes)), bytes.size());
    bytes.resize(bytes.size() + 100);   // what follows is not ours
    EXPECT_TRUE(decode_block_header(bytes));
  }
}

TEST(BlockHeader, WithoutCommitWordIsAMiss) {
  auto bytes = encode(make(100'000, 2, 20));
  std::fill_n(bytes.begin(), kBlockHeaderCommitBytes, std::byte{0});
  EXPECT_EQ(decode_block_header(bytes).error().code(), Code::miss);
}

TEST(BlockHeader, EveryFlippedBitIsSeen) {
  auto bytes = encode(make(200'000, 4, 21));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
    EXPECT_EQ(decode_block_header(bytes).error().code(), Code::corrupt) << "bit " << bit;
    bytes[bit / 8] ^= std::byte(1 << (bit % 8));
  }
  EXPECT_TRUE(decode_block_header(bytes));
}

TEST(BlockHeader, EveryCutIsSeen) {
  auto bytes = encode(make(200'000, 4, 21));
  for (size_t size = 0; size < bytes.size(); ++size) {
    ByteVector cut(bytes.begin(), bytes.begin() + long(size));   // a copy, so that the sanitizer sees a read beyond
    EXPECT_EQ(decode_block_header(cut).error().code(), Code::corrupt) << size;
  }
}

TEST(BlockHeader, JunkNeverDecodes) {
  Random random(1);
  auto good = encode(make(2 << 20, 32, 120));
  for (int i = 0; i < 20'000; ++i) {
    ByteVector junk(good.begin(), good.begin() + long(random.below(good.size() + 1)));
    for (uint64_t n = 1 + random.below(16); n > 0 && !junk.empty(); --n) junk[random.below(std::min<size_t>(junk.size(), 128))] = std::byte(random.next());
    if (std::equal(junk.begin(), junk.end(), good.begin(), good.end())) continue;
    EXPECT_FALSE(decode_block_header(junk));
  }
}

TEST(BlockHeader, ErrorsSayWhatWasWrong) {
  auto bytes = encode(make(4096, 1, 5));
  bytes[12] = std::byte{9};
  EXPECT_NE(decode_block_header(bytes).error().message().find("version 9"), std::string::npos);
}

TEST(BlockHeaderDeathTest, OutOfRangeIsOurFault) {
  auto header = make(4096, 1, 5);
  header.sums.push_back(1);
  EXPECT_DEATH(encode(header), "2 sums for 4096 bytes");
}

// The worked example of docs/design/block-header.md.
TEST(BlockHeader, WorkedExample) {
  BlockHeader header{.id = {0x1111, 0x2222, 7, 1, 0}, .length = 70'000, .root = 0x5555, .generation = (1ull << 32) | 3,
                     .sums = {0xAAAA, 0xBBBB}, .pages = {4, 9}, .key = "abc"};
  auto bytes = encode(header);
  ASSERT_EQ(bytes.size(), 128u + 16 + 8 + 8);
  std::string hex;
  for (auto byte : bytes) hex += fmt::format("{:02x}", unsigned(byte));
  EXPECT_EQ(hex,
            "43de1d346280a9f2" "4d504248" "0100" "8000" "a0000000" "00000000"
            "1111000000000000" "2222000000000000" "07000000" "0100" "0000"
            "0000000000000000" "0000000000000000" "00000000" "0000" "0000"
            "7011010000000000" "5555000000000000" "0300000001000000"
            "02000000" "02000000" "00000000" "0300" "0000" "00000000000000000000000000000000"
            "aaaa000000000000" "bbbb000000000000"
            "04000000" "09000000"
            "6162630000000000");
}

}  // namespace
}  // namespace millpond::wire
