#include "rpc/loop.h"

#include <pthread.h>
#include <signal.h>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstring>
#include <optional>
#include <utility>

#include "base/check.h"

namespace millpond::rpc {
namespace asio = boost::asio;
using boost::system::error_code;

struct Loop::Asio {
  asio::io_context context{1};
  asio::steady_timer timer{context};
  asio::ip::tcp::resolver resolver{context};
};

namespace {

// Readiness instead of Asio's own reads and writes: those stop at 64 KiB a call, know neither ancillary data nor
// "headers, messages and payloads of several frames at once", and differ for TCP and Unix sockets.
class AsioWatch : public Watch {
 public:
  AsioWatch(asio::io_context& context, int fd) : descriptor_(context, fd), fd_(fd) {}
  int fd() const override { return fd_; }
  void wait_read(Task task) override { wait(asio::posix::stream_descriptor::wait_read, std::move(task)); }
  void wait_write(Task task) override { wait(asio::posix::stream_descriptor::wait_write, std::move(task)); }

 private:
  void wait(asio::posix::stream_descriptor::wait_type type, Task task) {
    descriptor_.async_wait(type, [task = std::move(task)](error_code failure) {
      if (failure != asio::error::operation_aborted) task();
    });
  }
  asio::posix::stream_descriptor descriptor_;
  int fd_;
};

}  // namespace

Loop::Loop(const std::string& thread_name) : asio_(std::make_unique<Asio>()) {
  thread_ = std::thread([this, name = thread_name.substr(0, 15)] {
    thread_id_ = std::this_thread::get_id();
    pthread_setname_np(pthread_self(), name.c_str());
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, nullptr);   // signals belong to the program (an engine, say), not to this thread
    auto work = asio::make_work_guard(asio_->context);
    asio_->context.run();
  });
}

Loop::~Loop() { MP_CHECK(!thread_.joinable(), "a loop dies without finish()"); }

Time Loop::now() { return {std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now().time_since_epoch())}; }

bool Loop::post(Task task) {
  Lock lock(mutex_);
  if (closed_) return false;
  posted_.push_back(std::move(task));
  // One wake for all that gathers until the loop looks.
  if (posted_.size() == 1) asio::post(asio_->context, [this] { run_posted(); });
  return true;
}

std::deque<Task> Loop::take_posted() {
  Lock lock(mutex_);
  return std::exchange(posted_, {});
}

void Loop::run_posted() {
  auto tasks = take_posted();
  for (; !tasks.empty(); tasks.pop_front()) tasks.front()();   // what a task holds goes with it
}

TimerQueue::Key Loop::at(Time due, Task task) {
  auto key = timers_.add(due, std::move(task));
  if (due < armed_) arm();
  return key;
}

void Loop::arm() {
  armed_ = timers_.first();
  if (armed_ == Time::max()) return;
  asio_->timer.expires_at(std::chrono::steady_clock::time_point(armed_.since_start));
  asio_->timer.async_wait([this](error_code failure) {
    if (failure != asio::error::operation_aborted) run_timers();
  });
}

void Loop::run_timers() {
  armed_ = Time::max();
  Time now = Loop::now();
  while (auto task = timers_.take_due(now)) task();
  if (timers_.first() < armed_) arm();
}

namespace {
// A timer that ends with its handle. `key` is set and used on the loop only.
struct Pending {
  std::atomic<bool> cancelled{false};
  std::optional<TimerQueue::Key> key;
};
}  // namespace

std::shared_ptr<void> Loop::after(Duration delay, Task task) {
  auto pending = std::make_shared<Pending>();
  Time due = delay > Time::max() - now() ? Time::max() : now() + std::max(delay, Duration(0));
  auto start = [this, pending, due, task = std::move(task)]() mutable {
    if (pending->cancelled) return;
    pending->key = at(due, [pending, task = std::move(task)] {
      pending->key.reset();
      if (!pending->cancelled) task();
    });
  };
  if (on_loop()) start();
  else post(std::move(start));
  return std::shared_ptr<void>(nullptr, [weak = weak_from_this(), pending](void*) {
    pending->cancelled = true;
    auto loop = weak.lock();
    if (!loop) return;
    auto erase = [loop = loop.get(), pending] {
      if (pending->key) loop->cancel(*std::exchange(pending->key, {}));
    };
    if (loop->on_loop()) erase();
    else loop->post(std::move(erase));
  });
}

std::unique_ptr<Watch> Loop::watch(int fd) { return std::make_unique<AsioWatch>(asio_->context, fd); }

void Loop::resolve(const Address& address, std::function<void(Result<std::vector<Endpoint>>)> done) {
  asio_->resolver.async_resolve(
      address.host, std::to_string(address.port), asio::ip::resolver_base::numeric_service,
      [host = address.host, done = std::move(done)](error_code failure, asio::ip::tcp::resolver::results_type results) {
        if (failure) {
          if (failure != asio::error::operation_aborted) done(error(Code::unavailable, "cannot resolve {}: {}", host, failure.message()));
          return;
        }
        std::vector<Endpoint> endpoints;
        for (auto& entry : results) {
          Endpoint endpoint;
          endpoint.size = socklen_t(entry.endpoint().size());
          std::memcpy(&endpoint.address, entry.endpoint().data(), endpoint.size);
          endpoints.push_back(endpoint);
        }
        done(std::move(endpoints));
      });
}

void Loop::finish(Task last) {
  MP_CHECK(!on_loop(), "a loop cannot end itself: its owner was destroyed by a callback");
  post([this, last = std::move(last)] {
    last();
    // A task may answer by posting one more; one that does so for ever is cut off.
    for (int round = 0; round < 16; ++round) run_posted();
    timers_.clear();
    asio_->context.stop();
  });
  thread_.join();
  std::deque<Task> dropped;
  {
    Lock lock(mutex_);
    closed_ = true;
    dropped = std::exchange(posted_, {});
  }
  dropped.clear();
  asio_.reset();   // handlers still queued are destroyed with what they hold
}

}  // namespace millpond::rpc
