// What is due when. Pure: the loop asks with its clock. Most timers are cancelled before they are due (a call's deadline).
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "base/time.h"

namespace millpond::rpc {

class TimerQueue {
 public:
  using Key = std::pair<Time, uint64_t>;   // due, then order of adding

  Key add(Time due, std::function<void()> task) {
    Key key{due, next_++};
    tasks_.emplace(key, std::move(task));
    return key;
  }
  bool cancel(const Key& key) { return tasks_.erase(key) > 0; }
  bool empty() const { return tasks_.empty(); }
  Time first() const { return tasks_.empty() ? Time::max() : tasks_.begin()->first.first; }

  // The next task that is due; empty: none. Taken out before it runs, so it may add and cancel.
  std::function<void()> take_due(Time now) {
    if (tasks_.empty() || tasks_.begin()->first.first > now) return {};
    auto task = std::move(tasks_.begin()->second);
    tasks_.erase(tasks_.begin());
    return task;
  }
  void clear() { tasks_.clear(); }

 private:
  std::map<Key, std::function<void()>> tasks_;
  uint64_t next_ = 0;
};

}  // namespace millpond::rpc
