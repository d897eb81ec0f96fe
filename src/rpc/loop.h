// One thread that waits for sockets, timers and tasks. The only part that knows Asio; everything above it is callbacks
// on this thread.
//
// Lives on: its own thread. post() and after() may be called from any; the rest from the loop.
#pragma once
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "base/time.h"
#include "rpc/address.h"
#include "rpc/timer_queue.h"

namespace millpond::rpc {

using Task = std::function<void()>;

// A file descriptor (owned, non-blocking) whose readiness can be awaited. Destroyed: awaited tasks are dropped.
class Watch {
 public:
  virtual ~Watch() = default;
  virtual int fd() const = 0;
  // `task` runs once, when a read (write) would make progress or fail. One of each may be outstanding.
  virtual void wait_read(Task task) = 0;
  virtual void wait_write(Task task) = 0;
};

class Loop : public std::enable_shared_from_this<Loop> {
 public:
  explicit Loop(const std::string& thread_name);
  ~Loop();                                                    // REQUIRES: finish() was called

  static Time now();
  bool on_loop() const { return std::this_thread::get_id() == thread_id_; }

  // False, and the task is dropped, after finish().
  bool post(Task task) EXCLUDES_LOCK(mutex_);

  TimerQueue::Key at(Time due, Task task);
  void cancel(const TimerQueue::Key& key) { timers_.cancel(key); }
  // As Runtime::after.
  std::shared_ptr<void> after(Duration delay, Task task);

  std::unique_ptr<Watch> watch(int fd);
  // Asks the resolver on a thread of its own.
  void resolve(const Address& address, std::function<void(Result<std::vector<Endpoint>>)> done);

  // Runs `last` on the loop, then the tasks still queued (and what they post, 16 rounds of it), then ends the thread.
  void finish(Task last);

 private:
  struct Asio;
  void run_posted() EXCLUDES_LOCK(mutex_);
  std::deque<Task> take_posted() EXCLUDES_LOCK(mutex_);
  void run_timers();
  void arm();

  std::unique_ptr<Asio> asio_;
  Mutex mutex_;
  std::deque<Task> posted_ GUARDED_BY(mutex_);
  bool closed_ GUARDED_BY(mutex_) = false;
  TimerQueue timers_;                                         // loop only
  Time armed_ = Time::max();                                  // when the one Asio timer will fire
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};
};

}  // namespace millpond::rpc
