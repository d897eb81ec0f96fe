// The names behind the 32-bit namespace ids, so that a second name with the same hash is refused instead of sharing
// generations with the first. Soft state: a new master learns names as clients open them.
//
// Lives on: one thread. Limits: kMax names, kNameBytesMax bytes each.
#pragma once
#include <string>
#include <unordered_map>

#include "base/block_id.h"
#include "base/status.h"

namespace millpond::master {

class Namespaces {
 public:
  static constexpr size_t kMax = 64 << 10;
  static constexpr size_t kNameBytesMax = 1024;

  // Remembers that `id` = Namespace{tenant, name}.id() means this name.
  // invalid: empty or too long; refused: another name has the same id; overloaded: kMax.
  Status open(NamespaceId id, const std::string& tenant, const std::string& name);
  size_t size() const { return names_.size(); }

 private:
  std::unordered_map<NamespaceId, std::pair<std::string, std::string>> names_;
};

}  // namespace millpond::master
