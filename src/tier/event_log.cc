#include "tier/event_log.h"

#include <utility>

#include "base/reached.h"

namespace millpond::tier {

std::string_view name(DropReason reason) {
  switch (reason) {
    case DropReason::none: return "none";
    case DropReason::removed: return "removed";
    case DropReason::wiped: return "wiped";
    case DropReason::corrupt: return "corrupt";
    case DropReason::refused: return "refused";
    case DropReason::replaced: return "replaced";
  }
  return "unknown";
}

uint64_t EventLog::add(EventKind kind, DropReason reason, const BlockId& id, uint64_t root, uint64_t length) {
  if (events_.size() >= max_) {
    MP_REACHED("tier: events lost");
    lost_count_ += events_.size();
    lost_ = true;
    events_.clear();
  }
  wake_ = wake_ || events_.empty();
  events_.push_back({++last_, kind, reason, id, root, length});
  return last_;
}

std::vector<Event> EventLog::take(size_t max) {
  size_t count = std::min(max, events_.size());
  std::vector<Event> taken(events_.begin(), events_.begin() + long(count));
  events_.erase(events_.begin(), events_.begin() + long(count));
  return taken;
}

bool EventLog::lost() { return std::exchange(lost_, false); }
bool EventLog::wants_wake() { return std::exchange(wake_, false); }

}  // namespace millpond::tier
