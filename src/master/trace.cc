#include "master/trace.h"

#include "master/flat_table.h"

namespace millpond::master {

std::string_view text(Departure why) {
  switch (why) {
    case Departure::none: return "dropped by its owner";
    case Departure::removed: return "removed";
    case Departure::wiped: return "namespace wiped";
    case Departure::corrupt: return "dropped: its bytes did not verify";
    case Departure::refused: return "refused: another node holds other bytes under this key";
    case Departure::replaced: return "replaced";
    case Departure::evicted: return "evicted";
    case Departure::owner_lost: return "owner lost";
  }
  return "dropped by its owner";
}

void Trace::record(const Departed& departed) {
  if (!kept_) return;
  if (ring_.size() < kept_) {
    ring_.push_back(departed);
  } else {
    Departed& oldest = ring_[next_];
    auto at = latest_.find(table_hash(oldest.id));
    if (at != latest_.end() && at->second == next_) latest_.erase(at);
    oldest = departed;
  }
  latest_[table_hash(departed.id)] = uint32_t(next_);
  next_ = (next_ + 1) % kept_;
}

std::optional<Departed> Trace::find(const BlockId& id) const {
  auto at = latest_.find(table_hash(id));
  if (at == latest_.end() || ring_[at->second].id != id) return std::nullopt;
  return ring_[at->second];
}

}  // namespace millpond::master
