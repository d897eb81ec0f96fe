#include "master/touch_queue.h"

#include <algorithm>

#include "base/reached.h"

namespace millpond::master {

void TouchQueue::add(const BlockId& last, uint32_t length) {
  auto [at, made] = waiting_.try_emplace(last, first_ + runs_.size());
  if (!made) {
    TouchedRun& run = runs_[at->second - first_];
    run.length = std::max(run.length, length);
    return;
  }
  runs_.push_back({last, length, 0});
  if (runs_.size() <= kWaitingMax) return;
  MP_REACHED("touches dropped");
  ++dropped_;
  pop();
}

void TouchQueue::pop() {
  waiting_.erase(runs_.front().id);
  runs_.pop_front();
  ++first_;
}

std::vector<TouchedRun> TouchQueue::take(size_t max) {
  std::vector<TouchedRun> taken;
  while (!runs_.empty() && taken.size() < max) {
    taken.push_back(runs_.front());
    pop();
  }
  return taken;
}

}  // namespace millpond::master
