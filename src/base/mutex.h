// std::mutex with clang's thread-safety annotations, so that the compiler refuses an unguarded read.
#pragma once
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define MP_ANNOTATE(x) __attribute__((x))
#else
#define MP_ANNOTATE(x)
#endif
#define GUARDED_BY(mutex) MP_ANNOTATE(guarded_by(mutex))
#define REQUIRES_LOCK(...) MP_ANNOTATE(requires_capability(__VA_ARGS__))
#define EXCLUDES_LOCK(...) MP_ANNOTATE(locks_excluded(__VA_ARGS__))

namespace millpond {

class MP_ANNOTATE(capability("mutex")) Mutex {
 public:
  void lock() MP_ANNOTATE(acquire_capability()) { mutex_.lock(); }
  void unlock() MP_ANNOTATE(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

class MP_ANNOTATE(scoped_lockable) Lock {
 public:
  explicit Lock(Mutex& mutex) MP_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~Lock() MP_ANNOTATE(release_capability()) { mutex_.unlock(); }
  Lock(const Lock&) = delete;

 private:
  Mutex& mutex_;
};

class Condition {
 public:
  // REQUIRES: the mutex is held; it is held again on return. Wakes may be spurious: wait in a loop.
  void wait(Mutex& mutex) REQUIRES_LOCK(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();
  }
  template <typename Rep, typename Period>
  bool wait_for(Mutex& mutex, std::chrono::duration<Rep, Period> limit) REQUIRES_LOCK(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    bool notified = condition_.wait_for(lock, limit) == std::cv_status::no_timeout;
    lock.release();
    return notified;
  }
  void notify_one() { condition_.notify_one(); }
  void notify_all() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace millpond
