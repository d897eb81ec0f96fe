// What a tier has to tell, in order. Bounded: beyond `max` unread events all unread ones are lost, and lost() says so;
// whoever reads then takes the whole inventory anyway. Not synchronised.
#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "tier/dram_tier.h"

namespace millpond::tier {

class EventLog {
 public:
  explicit EventLog(size_t max) : max_(max) {}

  uint64_t add(EventKind kind, DropReason reason, const BlockId& id, uint64_t root, uint64_t length);   // its sequence
  std::vector<Event> take(size_t max);
  uint64_t last() const { return last_; }
  uint64_t lost_count() const { return lost_count_; }
  bool empty() const { return events_.empty(); }
  bool lost();              // true once after an overflow
  bool wants_wake();        // true once after events came to an empty log

 private:
  const size_t max_;
  std::deque<Event> events_;
  uint64_t last_ = 0;
  uint64_t lost_count_ = 0;
  bool lost_ = false;
  bool wake_ = false;
};

}  // namespace millpond::tier
