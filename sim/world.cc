#include "sim/world.h"

#include <algorithm>

#include "base/check.h"

namespace millpond::sim {

World::World(uint64_t seed) : now_{std::chrono::hours(1)}, random_(seed), digest_(seed) {
  processes_.push_back(Process{});   // the world itself
}

World::~World() {
  for (uint32_t i = 1; i < processes_.size(); ++i) end_process(ProcessId(i));
  queue_.clear();
}

ProcessId World::start_process(HostId host) {
  processes_.push_back(Process{.host = host});
  return ProcessId(uint32_t(processes_.size() - 1));
}

void World::end_process(ProcessId process) {
  MP_CHECK(process != kWorldProcess, "the world cannot end");
  auto& entry = processes_[process.value];
  if (!entry.alive) return;
  entry.alive = false;
  entry.paused = false;
  // A task may own what calls at() or cancels timers when it dies: take all out first, then destroy.
  std::vector<Event> void_events;
  auto kept = std::partition(queue_.begin(), queue_.end(), [&](const Event& event) { return event.process != process; });
  void_events.assign(std::make_move_iterator(kept), std::make_move_iterator(queue_.end()));
  queue_.erase(kept, queue_.end());
  std::make_heap(queue_.begin(), queue_.end(), Later());
  auto held = std::move(entry.held);
  entry.held.clear();
}

void World::pause(ProcessId process) { processes_[process.value].paused = processes_[process.value].alive; }

void World::resume(ProcessId process) {
  auto& entry = processes_[process.value];
  if (!entry.paused) return;
  entry.paused = false;
  for (auto& task : entry.held) at(now_, process, std::move(task));
  entry.held.clear();
}

bool World::alive(ProcessId process) const { return processes_[process.value].alive; }
bool World::paused(ProcessId process) const { return processes_[process.value].paused; }
HostId World::host(ProcessId process) const { return processes_[process.value].host; }

void World::at(Time when, ProcessId process, Task task) {
  if (!processes_[process.value].alive) return;
  queue_.push_back({std::max(when, now_), sequence_++, process, std::move(task)});
  std::push_heap(queue_.begin(), queue_.end(), Later());
}

bool World::step(Time limit) {
  while (!queue_.empty() && queue_.front().when <= limit) {
    std::pop_heap(queue_.begin(), queue_.end(), Later());
    Event event = std::move(queue_.back());
    queue_.pop_back();
    now_ = std::max(now_, event.when);
    auto& process = processes_[event.process.value];
    if (process.paused) {
      process.held.push_back(std::move(event.task));
      continue;
    }
    ++events_;
    note(uint64_t(event.when.since_start.count()) ^ (uint64_t(event.process.value) << 48));
    event.task();
    event.task = nullptr;   // what it owned goes while its process still lives
    if (event.process != kWorldProcess && on_step_) on_step_(event.process);
    return true;
  }
  now_ = std::max(now_, limit);
  return false;
}

void World::run_until(Time limit) {
  while (step(limit)) {
  }
}

bool World::run_until(const std::function<bool()>& done, Time limit) {
  while (!done())
    if (!step(limit)) return done();
  return true;
}

void World::note(uint64_t value) {
  digest_ = (digest_ ^ value) * 0x9E3779B97F4A7C15ull;
  digest_ ^= digest_ >> 29;
}

}  // namespace millpond::sim
