#include "wire/block_header.h"

#include <bit>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "wire/limits.h"

namespace millpond::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "headers are little-endian, and copied as they stand");

constexpr uint32_t kMagic = 0x4842504D;   // "MPBH"

struct Fixed {
  uint64_t commit;
  uint32_t magic;
  uint16_t version;
  uint16_t fixed_bytes;                   // offset of the sums: a reader skips fixed fields that it does not know
  uint32_t total_bytes;
  uint32_t namespace_generation;
  BlockId id;
  BlockId parent;
  uint64_t length;
  uint64_t root;
  uint64_t generation;
  uint32_t sum_count;
  uint32_t page_count;
  uint32_t page_offset;
  uint16_t key_bytes;
  uint16_t zero1;
  uint64_t zero2[2];
};
static_assert(sizeof(Fixed) == kBlockHeaderFixedBytes);
static_assert(offsetof(Fixed, id) == 24 && offsetof(Fixed, parent) == 48 && offsetof(Fixed, length) == 72);
static_assert(offsetof(Fixed, sum_count) == 96 && offsetof(Fixed, key_bytes) == 108);

constexpr size_t kFixedBytesMax = 4096;
constexpr uint64_t kSumsMax = chunk_count(kBlockBytesMax);

constexpr size_t padded(size_t bytes) { return (bytes + 7) / 8 * 8; }
constexpr size_t total_from(size_t fixed, size_t sums, size_t pages, size_t key) {
  return fixed + sums * 8 + padded(pages * 4) + padded(key);
}
constexpr size_t kTotalMax = total_from(kFixedBytesMax, kSumsMax, kSumsMax, kKeyBytesMax);

// 0 means "not committed", so no seal is 0.
uint64_t seal(ByteSpan header) {
  uint64_t sum = hash64(header.subspan(kBlockHeaderCommitBytes), kMagic);
  return sum == 0 ? 1 : sum;
}

Result<Fixed> read_fixed(ByteSpan bytes) {
  if (bytes.size() < sizeof(Fixed)) return error(Code::corrupt, "block header: {} bytes, the shortest has {}", bytes.size(), sizeof(Fixed));
  Fixed fixed;
  std::memcpy(&fixed, bytes.data(), sizeof fixed);
  if (fixed.commit == 0) return error(Code::miss, "block header: not committed");
  if (fixed.magic != kMagic) return error(Code::corrupt, "block header: magic {:#x}", fixed.magic);
  if (fixed.version != kBlockHeaderVersion) return error(Code::corrupt, "block header: layout version {}, this release reads {}", fixed.version, kBlockHeaderVersion);
  if (fixed.fixed_bytes < sizeof(Fixed) || fixed.fixed_bytes > kFixedBytesMax || fixed.fixed_bytes % 8) {
    return error(Code::corrupt, "block header: {} bytes of fixed fields", fixed.fixed_bytes);
  }
  if (fixed.length == 0 || fixed.length > kBlockBytesMax) return error(Code::corrupt, "block header: length {}", fixed.length);
  if (fixed.sum_count != chunk_count(fixed.length)) return error(Code::corrupt, "block header: {} sums for {} bytes", fixed.sum_count, fixed.length);
  if (fixed.page_count > fixed.sum_count) return error(Code::corrupt, "block header: {} pages for {} bytes", fixed.page_count, fixed.length);
  if (fixed.page_offset != 0 && fixed.page_count != 1) return error(Code::corrupt, "block header: offset {} into {} pages", fixed.page_offset, fixed.page_count);
  if (fixed.key_bytes == 0 || fixed.key_bytes > kKeyBytesMax) return error(Code::corrupt, "block header: key of {} bytes", fixed.key_bytes);
  if (fixed.id.none()) return error(Code::corrupt, "block header: no id");
  size_t total = total_from(fixed.fixed_bytes, fixed.sum_count, fixed.page_count, fixed.key_bytes);
  if (fixed.total_bytes != total) return error(Code::corrupt, "block header: says {} bytes, its parts are {}", fixed.total_bytes, total);
  return fixed;
}

}  // namespace

size_t block_header_bytes(size_t sums, size_t pages, size_t key_bytes) {
  return total_from(kBlockHeaderFixedBytes, sums, pages, key_bytes);
}

void encode_block_header(const BlockHeaderView& header, MutableByteSpan target) {
  size_t total = block_header_bytes(header.sums.size(), header.pages.size(), header.key.size());
  MP_CHECK(target.size() == total, "{} bytes for a header of {}", target.size(), total);
  Fixed fixed{.magic = kMagic, .version = kBlockHeaderVersion, .fixed_bytes = sizeof(Fixed), .total_bytes = uint32_t(total),
              .namespace_generation = header.namespace_generation, .id = header.id, .parent = header.parent,
              .length = header.length, .root = header.root, .generation = header.generation,
              .sum_count = uint32_t(header.sums.size()), .page_count = uint32_t(header.pages.size()),
              .page_offset = header.page_offset, .key_bytes = uint16_t(header.key.size())};
  fixed.commit = 1;
  std::byte* at = target.data();
  std::memset(at, 0, total);   // the padding is sealed too
  std::memcpy(at, &fixed, sizeof fixed);
  at += sizeof fixed;
  if (!header.sums.empty()) std::memcpy(at, header.sums.data(), header.sums.size_bytes());
  at += header.sums.size_bytes();
  if (!header.pages.empty()) std::memcpy(at, header.pages.data(), header.pages.size_bytes());
  at += padded(header.pages.size_bytes());
  std::memcpy(at, header.key.data(), header.key.size());
  MP_CHECK(read_fixed(target).has_value(), "header out of range: {}", read_fixed(target).error().text());
  uint64_t commit = seal(target);
  std::memcpy(target.data(), &commit, sizeof commit);
}

Result<size_t> block_header_bytes(ByteSpan start) {
  MP_TRY(Fixed fixed, read_fixed(start));
  return size_t(fixed.total_bytes);
}

Result<BlockHeader> decode_block_header(ByteSpan bytes) {
  MP_TRY(Fixed fixed, read_fixed(bytes));
  if (fixed.total_bytes > bytes.size()) return error(Code::corrupt, "block header: cut after {} of {} bytes", bytes.size(), fixed.total_bytes);
  bytes = bytes.first(fixed.total_bytes);
  if (seal(bytes) != fixed.commit) return error(Code::corrupt, "block header of {}: commit word does not match", text(fixed.id));
  BlockHeader header{.id = fixed.id, .parent = fixed.parent, .namespace_generation = fixed.namespace_generation,
                     .length = fixed.length, .root = fixed.root, .generation = fixed.generation, .page_offset = fixed.page_offset};
  const std::byte* at = bytes.data() + fixed.fixed_bytes;
  header.sums.resize(fixed.sum_count);
  std::memcpy(header.sums.data(), at, header.sums.size() * 8);
  at += header.sums.size() * 8;
  header.pages.resize(fixed.page_count);
  if (fixed.page_count > 0) std::memcpy(header.pages.data(), at, header.pages.size() * 4);
  at += padded(header.pages.size() * 4);
  header.key.assign(reinterpret_cast<const char*>(at), fixed.key_bytes);
  return header;
}

static_assert(kTotalMax < (1 << 20), "a reader may allocate this much for a header");

}  // namespace millpond::wire
