// Counters, gauges and histograms of one daemon, printed in the Prometheus text format. A registry belongs to one
// daemon (several live in one process in the simulator). Names: millpond_<room>_<what>_<unit|total>.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/time.h"

namespace millpond {

class Counter {
 public:
  void add(uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

class Gauge {
 public:
  void set(double v) { value_.store(v, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_{0};
};

// Latencies in buckets of a quarter octave from 1 us to 134 s; quantiles are good to 19 %.
class Histogram {
 public:
  void add(Duration duration);
  uint64_t count() const;
  Duration quantile(double q) const;   // upper edge of the bucket; 0 when empty
  double sum_seconds() const;
  static constexpr int kBuckets = 109;
  static double upper_seconds(int bucket);
  uint64_t bucket(int i) const { return buckets_[i].load(std::memory_order_relaxed); }

 private:
  std::array<std::atomic<uint64_t>, kBuckets> buckets_{};
  std::atomic<uint64_t> sum_ns_{0};
};

class Metrics {
 public:
  // The same name with the same labels gives the same object; it lives as long as the registry.
  // `labels` as Prometheus writes them, without braces: reason="no_space".
  Counter& counter(const std::string& name, const std::string& help, const std::string& labels = "");
  Gauge& gauge(const std::string& name, const std::string& help, const std::string& labels = "");
  Histogram& histogram(const std::string& name, const std::string& help, const std::string& labels = "");
  // Asked when printed, from any thread.
  void gauge_function(const std::string& name, const std::string& help, std::function<double()> value, const std::string& labels = "");

  std::string text() const;                             // Prometheus text format 0.0.4
  std::map<std::string, double> values() const;         // name{labels} → value, counters and gauges

 private:
  struct Family {
    std::string help;
    std::string type;
    std::map<std::string, std::unique_ptr<Counter>> counters;
    std::map<std::string, std::unique_ptr<Gauge>> gauges;
    std::map<std::string, std::function<double()>> functions;
    std::map<std::string, std::unique_ptr<Histogram>> histograms;
  };
  Family& family(const std::string& name, const std::string& help, const char* type) REQUIRES_LOCK(mutex_);
  mutable Mutex mutex_;
  std::map<std::string, Family> families_ GUARDED_BY(mutex_);
};

}  // namespace millpond
