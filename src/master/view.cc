#include "master/view.h"

namespace millpond::master {

void View::refresh(const Membership& membership, const Placement& placement, Time now, bool at_once) {
  if (!dirty_ || (!at_once && now - made_ < interval_)) return;
  dirty_ = false;
  made_ = now;
  ++version_;
  rows_.clear();
  for (const Member* member : membership.members())
    rows_.push_back({member->facts, member->index, member->standing, placement.weight(member->index)});
}

}  // namespace millpond::master
