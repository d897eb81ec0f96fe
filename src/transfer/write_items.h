// The part that Store and Reserve have in common: the list of blocks with their keys.
#pragma once
#include <cstdint>
#include <vector>

#include "base/checksum.h"
#include "transfer/batches.h"
#include "transfer/owner.h"
#include "wire/message.h"

namespace millpond::transfer {

// invalid: no bytes, more than a block may have, or a bad key.
bool can_be_stored(const WriteItem& item);

Weight weight_of_write(const WriteItem& item);

struct PackedItems {
  std::vector<wire::StoreItem> items;
  std::vector<uint8_t> keys;             // concatenated
  std::vector<uint64_t> sums;            // concatenated; none when `sums` was empty
};
// `sums`: by position, or empty where they are not known yet.
PackedItems pack(const std::vector<WriteItem>& items, const std::vector<uint32_t>& positions,
                 const std::vector<Checksums>& sums);

}  // namespace millpond::transfer
