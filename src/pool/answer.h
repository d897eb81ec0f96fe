// Waits on one thread for what a callback brings on another.
#pragma once
#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace millpond {

// A caller's deadline in nanoseconds: a day at most, the largest in milliseconds have no room there.
inline std::chrono::nanoseconds bounded(std::chrono::milliseconds asked) {
  return std::min<std::chrono::milliseconds>(asked, std::chrono::hours(24));
}

template <typename T>
class Answer {
 public:
  Answer() : shared_(std::make_shared<Shared>()) {}

  // To be called once, from any thread; may outlive this Answer.
  auto callback() const {
    return [shared = shared_](T value) {
      Lock lock(shared->mutex);
      shared->value.emplace(std::move(value));
      shared->here.notify_all();
    };
  }

  // nullopt: not here within `limit`.
  std::optional<T> wait(std::chrono::nanoseconds limit) const {
    auto until = std::chrono::steady_clock::now() + limit;
    Lock lock(shared_->mutex);
    while (!shared_->value) {
      auto left = until - std::chrono::steady_clock::now();
      if (left <= left.zero()) return std::nullopt;
      shared_->here.wait_for(shared_->mutex, left);
    }
    return std::exchange(shared_->value, std::nullopt);
  }

 private:
  struct Shared {
    Mutex mutex;
    Condition here;
    std::optional<T> value GUARDED_BY(mutex);
  };
  std::shared_ptr<Shared> shared_;
};

}  // namespace millpond
