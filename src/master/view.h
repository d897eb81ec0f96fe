// What clients are told of the cluster: who is where, who lives, how much each should get. A version names one state of
// it; an answer carries the view only to those who have another version. A joining node shows at once (its index may be
// in the next answer); everything else at most once per `interval`.
//
// Lives on: one thread; no clock.
#pragma once
#include <vector>

#include "base/time.h"
#include "master/membership.h"
#include "master/placement.h"

namespace millpond::master {

struct ViewRow {
  NodeFacts facts;
  NodeIndex index;
  Standing standing;
  uint32_t weight;
};

class View {
 public:
  // `base`: of this term, so that no version of an earlier master is taken for ours.
  View(uint64_t base, Duration interval) : version_(base + 1), interval_(interval) {}

  void change() { dirty_ = true; }
  // Makes a new version if there were changes and the last one is `interval` old, or at once.
  void refresh(const Membership& membership, const Placement& placement, Time now, bool at_once);

  uint64_t version() const { return version_; }
  const std::vector<ViewRow>& rows() const { return rows_; }   // by index

 private:
  uint64_t version_;
  Duration interval_;
  bool dirty_ = false;
  Time made_;
  std::vector<ViewRow> rows_;
};

}  // namespace millpond::master
