#include "measure/rate.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>

namespace millpond::measure {

Duration percentile(std::vector<Duration>& latencies, double q) {
  if (latencies.empty()) return Duration(0);
  size_t rank = size_t(std::ceil(q * double(latencies.size())));
  auto at = latencies.begin() + ptrdiff_t(std::clamp<size_t>(rank, 1, latencies.size()) - 1);
  std::nth_element(latencies.begin(), at, latencies.end());
  return *at;
}

Rate measure(size_t workers, Duration limit, const Call& call) {
  using Clock = std::chrono::steady_clock;
  struct Worker {
    std::vector<Duration> latencies;
    uint64_t bytes = 0;
    Clock::time_point ended;
  };
  std::vector<Worker> all(workers);
  std::atomic<size_t> waiting{workers};
  std::atomic<bool> go{false};
  auto work = [&](size_t index) {
    Worker& mine = all[index];
    mine.latencies.reserve(1 << 16);   // growing in the middle would be measured too
    --waiting;
    go.wait(false);
    auto begun = Clock::now();
    auto last = begun;
    for (uint64_t round = 0; last - begun < limit; ++round) {
      uint64_t bytes = call(index, round);
      if (bytes == kDone) break;
      auto now = Clock::now();
      mine.latencies.push_back(now - last);
      mine.bytes += bytes;
      last = now;
    }
    mine.ended = last;
  };
  std::vector<std::thread> threads;
  for (size_t i = 0; i < workers; ++i) threads.emplace_back(work, i);
  while (waiting) std::this_thread::yield();
  auto begun = Clock::now();
  go = true;
  go.notify_all();
  for (auto& thread : threads) thread.join();

  Rate rate;
  std::vector<Duration> latencies;
  for (auto& worker : all) {
    latencies.insert(latencies.end(), worker.latencies.begin(), worker.latencies.end());
    rate.bytes += worker.bytes;
    rate.elapsed = std::max<Duration>(rate.elapsed, worker.ended - begun);
  }
  rate.calls = latencies.size();
  rate.p50 = percentile(latencies, 0.5);
  rate.p99 = percentile(latencies, 0.99);
  rate.worst = percentile(latencies, 1);
  return rate;
}

}  // namespace millpond::measure
