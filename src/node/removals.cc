#include "node/removals.h"

#include "base/reached.h"

namespace millpond::node {

std::vector<Removal> Removals::apply(uint64_t after, std::span<const Removal> records) {
  if (after > last_) {
    MP_REACHED("node: gap in the removals");
    return {};
  }
  return append(records);
}

std::vector<Removal> Removals::restart(std::span<const Removal> records) {
  tail_.clear();                         // it would have a gap, and a master that starts from it could not know
  return append(records);
}

std::vector<Removal> Removals::append(std::span<const Removal> records) {
  std::vector<Removal> fresh;
  for (auto& record : records) {
    if (record.number <= last_) continue;
    last_ = record.number;
    tail_.push_back(record);
    if (tail_.size() > kept_) tail_.pop_front();
    fresh.push_back(record);
  }
  return fresh;
}

}  // namespace millpond::node
