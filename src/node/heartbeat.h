// When the next heartbeat goes out. One under way at a time; the interval is the master's.
#pragma once
#include <algorithm>

#include "base/time.h"

namespace millpond::node {

class Heartbeat {
 public:
  void start(Duration interval, Time now) {
    interval_ = std::clamp<Duration>(interval, std::chrono::milliseconds(10), std::chrono::minutes(1));
    next_ = now;
    running_ = true;
  }
  void stop() { running_ = false; }
  bool due(Time now) const { return running_ && !under_way_ && now >= next_; }
  void sent(Time now) {
    under_way_ = true;
    next_ = now + interval_;             // from the sending: a slow answer must not thin out the beats
  }
  void ended() { under_way_ = false; }
  Time wake_at() const { return running_ && !under_way_ ? next_ : Time::max(); }
  Duration interval() const { return interval_; }

 private:
  Duration interval_ = std::chrono::seconds(1);
  Time next_{};
  bool running_ = false;
  bool under_way_ = false;
};

}  // namespace millpond::node
