#include "node/store_items.h"

#include "node/aligned.h"
#include "wire/limits.h"
#include "wire/message.h"

namespace millpond::node {
namespace {

Result<StoreItems> read_items(const flatbuffers::Vector<const wire::StoreItem*>* vector, std::string_view keys, uint32_t generation, bool with_sums) {
  auto inside = aligned(vector);
  if (inside.size() > wire::kIdsPerMessageMax) return error(Code::invalid, "{} items in one message; {} at most", inside.size(), wire::kIdsPerMessageMax);
  StoreItems read;
  read.items.reserve(inside.size());
  size_t key_at = 0;
  uint64_t sum_at = 0;
  for (size_t i = 0; i < inside.size(); ++i) {
    const wire::StoreItem& item = inside[i];
    if (item.length() == 0 || item.length() > wire::kBlockBytesMax) {
      return error(Code::invalid, "item {}: length {}; a block has 1 to {} bytes", i, item.length(), wire::kBlockBytesMax);
    }
    if (item.key_bytes() == 0 || item.key_bytes() > kKeyBytesMax) return error(Code::invalid, "item {}: a key of {} bytes; 1 to {} are allowed", i, item.key_bytes(), kKeyBytesMax);
    if (item.key_bytes() > keys.size() - key_at) return error(Code::invalid, "item {}: its key of {} bytes ends beyond the {} bytes of keys", i, item.key_bytes(), keys.size());
    if (with_sums && item.sum_count() != chunk_count(item.length())) {
      return error(Code::invalid, "item {}: {} sums for {} bytes; there is one per {} bytes: {}", i, item.sum_count(), item.length(), kChunkBytes, chunk_count(item.length()));
    }
    BlockId id = wire::id_of(item.id());
    if (id.none() || id.zero != 0) return error(Code::invalid, "item {}: {} is no block id", i, text(id));
    read.items.push_back({.spec = {.id = id, .parent = wire::id_of(item.parent()), .key = keys.substr(key_at, item.key_bytes()), .length = item.length(), .namespace_generation = generation},
                          .root = item.root(), .sum_first = size_t(sum_at)});
    key_at += item.key_bytes();
    if (with_sums) sum_at += item.sum_count();
    read.bytes += item.length();         // 2^16 items of 2^31 bytes: no overflow
  }
  if (key_at != keys.size()) return error(Code::invalid, "the items have {} bytes of keys, the message {}", key_at, keys.size());
  return read;
}

std::string_view bytes_of(const flatbuffers::Vector<uint8_t>* vector) {
  return vector ? std::string_view(reinterpret_cast<const char*>(vector->data()), vector->size()) : std::string_view();
}

}  // namespace

Result<StoreItems> read_store(ByteSpan body) {
  MP_TRY(const wire::Store* store, wire::parse<wire::Store>(body));
  MP_TRY(StoreItems read, read_items(store->items(), bytes_of(store->keys()), store->generation(), /*with_sums=*/true));
  read.sums = aligned<uint64_t>(store->sums());
  size_t expected = read.items.empty() ? 0 : read.items.back().sum_first + chunk_count(read.items.back().spec.length);
  if (read.sums.size() != expected) return error(Code::invalid, "the items have {} sums, the message {}", expected, read.sums.size());
  read.visible = store->visible();
  return read;
}

Result<StoreItems> read_reserve(ByteSpan body) {
  MP_TRY(const wire::Reserve* reserve, wire::parse<wire::Reserve>(body));
  return read_items(reserve->items(), bytes_of(reserve->keys()), reserve->generation(), /*with_sums=*/false);
}

}  // namespace millpond::node
