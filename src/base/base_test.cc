// Goal: the words that everyone uses mean what they say. Method: small tables.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/block_id.h"
#include "base/checksum.h"
#include "base/metrics.h"
#include "base/random.h"
#include "base/status.h"

namespace millpond {
namespace {

ByteVector some_bytes(size_t count, uint64_t seed) {
  Random random(seed);
  ByteVector bytes(count);
  for (auto& b : bytes) b = std::byte(random.next());
  return bytes;
}

// Cuts one run of memory into pieces of odd lengths, an empty one among them.
template <typename Span, typename Vector>
std::vector<Span> cut(Vector& bytes, uint64_t seed) {
  Random random(seed);
  std::vector<Span> pieces;
  for (size_t at = 0; at < bytes.size();) {
    size_t step = std::min<size_t>(bytes.size() - at, random.below(100000));
    pieces.push_back(Span(bytes.data() + at, step));
    at += step;
  }
  return pieces;
}

TEST(Checksum, does_not_depend_on_how_the_bytes_are_cut) {
  auto bytes = some_bytes(1'000'003, 1);
  std::vector<ByteSpan> whole{ByteSpan(bytes)};
  auto expected = checksum(whole, 42);
  EXPECT_EQ(expected.sums.size(), chunk_count(bytes.size()));
  for (uint64_t seed = 0; seed < 20; ++seed) {
    auto pieces = cut<ByteSpan>(bytes, seed);
    EXPECT_EQ(checksum(pieces, 42).root, expected.root);
    ByteVector target(bytes.size());
    auto landing = cut<MutableByteSpan>(target, seed + 100);
    EXPECT_EQ(copy_and_sum(pieces, landing), expected.sums);
    EXPECT_EQ(target, bytes);
    EXPECT_EQ(copy_and_sum_target(pieces, landing), expected.sums);
  }
}

TEST(Checksum, sees_one_flipped_bit_another_key_and_another_length) {
  auto bytes = some_bytes(200'000, 2);
  std::vector<ByteSpan> pieces{ByteSpan(bytes)};
  auto sums = checksum(pieces, 7);
  EXPECT_TRUE(verifies(pieces, sums.sums, sums.root, 7));
  EXPECT_FALSE(verifies(pieces, sums.sums, sums.root, 8));
  std::vector<ByteSpan> shorter{ByteSpan(bytes).first(199'999)};
  EXPECT_FALSE(verifies(shorter, sums.sums, sums.root, 7));
  Random random(3);
  for (int i = 0; i < 100; ++i) {
    size_t at = random.below(bytes.size());
    bytes[at] ^= std::byte(1 << random.below(8));
    EXPECT_FALSE(verifies(pieces, sums.sums, sums.root, 7));
    auto again = checksum(pieces, 7);
    EXPECT_NE(again.root, sums.root);
    sums = again;
  }
}

TEST(BlockId, differs_by_key_namespace_tenant_generation_and_seed) {
  std::set<BlockId> ids;
  std::set<uint64_t> seeds;
  int made = 0;
  for (auto tenant : {"a", "b"})
    for (auto name : {"x", "y"})
      for (uint32_t generation : {0u, 1u})
        for (auto key : {"k", "kk"}) {
          auto hash = hash_key({tenant, name, generation}, key);
          ids.insert(hash.id), seeds.insert(hash.seed), ++made;
          EXPECT_NE(hash.seed, hash.id.low);
        }
  EXPECT_EQ(ids.size(), made);
  EXPECT_EQ(seeds.size(), made);
  // The fields have ends: ("ab","c") is not ("a","bc").
  EXPECT_NE(hash_key({"ab", "c"}, "k").id, hash_key({"a", "bc"}, "k").id);
}

TEST(BlockId, bad_keys_say_what_is_wrong) {
  EXPECT_EQ(check_key("").code(), Code::invalid);
  EXPECT_TRUE(check_key(std::string(kKeyBytesMax, 'k')).ok());
  auto status = check_key(std::string(kKeyBytesMax + 1, 'k'));
  EXPECT_NE(status.message().find("4097"), std::string::npos);
}

TEST(Status, try_passes_the_status_on) {
  auto inner = [](bool good) -> Result<int> { return good ? Result<int>(1) : error(Code::miss, "no {}", "block"); };
  auto outer = [&](bool good) -> Result<std::string> {
    MP_TRY(int value, inner(good));
    return std::to_string(value);
  };
  EXPECT_EQ(*outer(true), "1");
  EXPECT_EQ(outer(false).error().text(), "miss: no block");
}

TEST(Metrics, histogram_quantiles_bracket_the_values) {
  Metrics metrics;
  auto& histogram = metrics.histogram("millpond_test_seconds", "test");
  for (int i = 1; i <= 1000; ++i) histogram.add(std::chrono::microseconds(i));
  EXPECT_GE(histogram.quantile(0.5), std::chrono::microseconds(500));
  EXPECT_LE(histogram.quantile(0.5), std::chrono::microseconds(600));
  EXPECT_EQ(histogram.count(), 1000u);
  EXPECT_NE(metrics.text().find("millpond_test_seconds_count 1000"), std::string::npos);
}

}  // namespace
}  // namespace millpond
