#include "base/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace millpond {

double Histogram::upper_seconds(int bucket) { return 1e-6 * std::exp2(bucket / 4.0); }

void Histogram::add(Duration duration) {
  int64_t ns = std::max<int64_t>(duration.count(), 0);
  int bucket = ns <= 1000 ? 0 : int(std::ceil(4 * std::log2(double(ns) / 1000)));
  buckets_[std::clamp(bucket, 0, kBuckets - 1)].fetch_add(1, std::memory_order_relaxed);
  sum_ns_.fetch_add(uint64_t(ns), std::memory_order_relaxed);
}

uint64_t Histogram::count() const {
  uint64_t sum = 0;
  for (auto& bucket : buckets_) sum += bucket.load(std::memory_order_relaxed);
  return sum;
}

double Histogram::sum_seconds() const { return double(sum_ns_.load(std::memory_order_relaxed)) * 1e-9; }

Duration Histogram::quantile(double q) const {
  uint64_t all = count();
  if (all == 0) return Duration(0);
  uint64_t rank = std::max<uint64_t>(1, uint64_t(std::ceil(q * double(all)))), seen = 0;
  for (int i = 0; i < kBuckets; ++i)
    if ((seen += bucket(i)) >= rank) return Duration(int64_t(upper_seconds(i) * 1e9));
  return Duration(int64_t(upper_seconds(kBuckets - 1) * 1e9));
}

Metrics::Family& Metrics::family(const std::string& name, const std::string& help, const char* type) {
  auto& found = families_[name];
  if (found.type.empty()) found.type = type, found.help = help;
  MP_CHECK(found.type == type, "metric {} is a {}, asked for as a {}", name, found.type, type);
  return found;
}

Counter& Metrics::counter(const std::string& name, const std::string& help, const std::string& labels) {
  Lock lock(mutex_);
  auto& made = family(name, help, "counter").counters[labels];
  if (!made) made = std::make_unique<Counter>();
  return *made;
}

Gauge& Metrics::gauge(const std::string& name, const std::string& help, const std::string& labels) {
  Lock lock(mutex_);
  auto& made = family(name, help, "gauge").gauges[labels];
  if (!made) made = std::make_unique<Gauge>();
  return *made;
}

Histogram& Metrics::histogram(const std::string& name, const std::string& help, const std::string& labels) {
  Lock lock(mutex_);
  auto& made = family(name, help, "histogram").histograms[labels];
  if (!made) made = std::make_unique<Histogram>();
  return *made;
}

void Metrics::gauge_function(const std::string& name, const std::string& help, std::function<double()> value, const std::string& labels) {
  Lock lock(mutex_);
  family(name, help, "gauge").functions[labels] = std::move(value);
}

namespace {
std::string braces(const std::string& labels) { return labels.empty() ? "" : "{" + labels + "}"; }
}  // namespace

std::string Metrics::text() const {
  Lock lock(mutex_);
  std::string out;
  for (auto& [name, family] : families_) {
    out += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, family.help, name, family.type);
    for (auto& [labels, counter] : family.counters) out += fmt::format("{}{} {}\n", name, braces(labels), counter->value());
    for (auto& [labels, gauge] : family.gauges) out += fmt::format("{}{} {}\n", name, braces(labels), gauge->value());
    for (auto& [labels, value] : family.functions) out += fmt::format("{}{} {}\n", name, braces(labels), value());
    for (auto& [labels, histogram] : family.histograms) {
      uint64_t seen = 0;
      std::string comma = labels.empty() ? "" : labels + ",";
      for (int i = 0; i < Histogram::kBuckets; ++i) {
        seen += histogram->bucket(i);
        if (i % 4 == 0)   // whole octaves are enough to print
          out += fmt::format("{}_bucket{{{}le=\"{:.6g}\"}} {}\n", name, comma, Histogram::upper_seconds(i), seen);
      }
      out += fmt::format("{}_bucket{{{}le=\"+Inf\"}} {}\n", name, comma, seen);
      out += fmt::format("{}_sum{} {}\n{}_count{} {}\n", name, braces(labels), histogram->sum_seconds(), name, braces(labels), seen);
    }
  }
  return out;
}

std::map<std::string, double> Metrics::values() const {
  Lock lock(mutex_);
  std::map<std::string, double> out;
  for (auto& [name, family] : families_) {
    for (auto& [labels, counter] : family.counters) out[name + braces(labels)] = double(counter->value());
    for (auto& [labels, gauge] : family.gauges) out[name + braces(labels)] = gauge->value();
    for (auto& [labels, value] : family.functions) out[name + braces(labels)] = value();
  }
  return out;
}

}  // namespace millpond
