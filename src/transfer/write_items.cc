#include "transfer/write_items.h"

#include "wire/limits.h"

namespace millpond::transfer {

bool can_be_stored(const WriteItem& item) {
  uint64_t length = total_bytes(item.source);
  return length > 0 && length <= wire::kBlockBytesMax && check_key(item.key_text).ok();
}

Weight weight_of_write(const WriteItem& item) {
  uint64_t length = total_bytes(item.source);
  return {.payload = length,
          .message = sizeof(wire::StoreItem) + item.key_text.size() + 8 * chunk_count(length),
          .group = item.namespace_generation};
}

PackedItems pack(const std::vector<WriteItem>& items, const std::vector<uint32_t>& positions,
                 const std::vector<Checksums>& sums) {
  PackedItems packed;
  for (auto i : positions) {
    auto& item = items[i];
    const Checksums none;
    auto& check = sums.empty() ? none : sums[i];
    packed.items.emplace_back(wire::id_of(item.key.id), wire::id_of(item.parent), check.root, total_bytes(item.source),
                              uint16_t(item.key_text.size()), uint16_t(0), uint32_t(check.sums.size()));
    packed.keys.insert(packed.keys.end(), item.key_text.begin(), item.key_text.end());
    packed.sums.insert(packed.sums.end(), check.sums.begin(), check.sums.end());
  }
  return packed;
}

}  // namespace millpond::transfer
