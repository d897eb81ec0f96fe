// A world with a clock of its own: events in one queue, ordered by (time, sequence), and processes that can end, stop
// and go on. From one seed everything that happens in it follows.
//
// A process is one life of a program: it is never started again, a restart is a new process. Process 0 is the world
// itself (the test, the network between the hosts); it never ends.
// Lives on: one thread; nothing here is locked.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "base/id.h"
#include "base/random.h"
#include "base/time.h"

namespace millpond::sim {

struct HostId : Id<HostId, uint32_t> { using Id::Id; };
struct ProcessId : Id<ProcessId, uint32_t> { using Id::Id; };
inline constexpr ProcessId kWorldProcess{0};

class World {
 public:
  using Task = std::function<void()>;

  explicit World(uint64_t seed);
  World(const World&) = delete;
  ~World();

  Time now() const { return now_; }
  Random& random() { return random_; }
  // A stream of its own from the same seed: drawing more here does not shift what others draw.
  Random fork_random() { return Random(random_.next()); }

  ProcessId start_process(HostId host);
  // Its events are void from now on, and the tasks in them are destroyed before this returns.
  void end_process(ProcessId process);
  // Its events wait, in order, until resume().
  void pause(ProcessId process);
  void resume(ProcessId process);
  bool alive(ProcessId process) const;
  bool paused(ProcessId process) const;
  HostId host(ProcessId process) const;

  // Runs `task` on that process's loop at `when` (not before now). Dropped if the process has ended.
  void at(Time when, ProcessId process, Task task);
  void after(Duration delay, ProcessId process, Task task) { at(now_ + delay, process, std::move(task)); }

  // Runs the next event if it is due by `limit`; otherwise moves the clock to `limit` and answers false.
  bool step(Time limit);
  void run_until(Time limit);
  void run_for(Duration duration) { run_until(now_ + duration); }
  // Until `done` says so, or `limit`. Answers whether it did.
  bool run_until(const std::function<bool()>& done, Time limit);

  // Called after each event of a process (not of the world): the checkers look here.
  void on_step(std::function<void(ProcessId)> look) { on_step_ = std::move(look); }

  // What happened so far as one number: order and time of all events, and whatever was noted.
  void note(uint64_t value);
  uint64_t digest() const { return digest_; }
  uint64_t events() const { return events_; }

 private:
  struct Event {
    Time when;
    uint64_t sequence;
    ProcessId process;
    Task task;
  };
  struct Later {   // heap order: the earliest on top
    bool operator()(const Event& a, const Event& b) const {
      return a.when != b.when ? a.when > b.when : a.sequence > b.sequence;
    }
  };
  struct Process {
    HostId host;
    bool alive = true;
    bool paused = false;
    std::deque<Task> held;
  };

  Time now_;
  Random random_;
  uint64_t sequence_ = 0;
  uint64_t events_ = 0;
  uint64_t digest_;
  std::vector<Event> queue_;   // a heap
  std::deque<Process> processes_;
  std::function<void(ProcessId)> on_step_;
};

}  // namespace millpond::sim
