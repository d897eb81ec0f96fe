// Time comes in as an argument. Only a Runtime (rpc/runtime.h) asks a clock.
#pragma once
#include <chrono>
#include <cstdint>

namespace millpond {

using Duration = std::chrono::nanoseconds;

// Since an arbitrary start: monotonic in a daemon, virtual in the simulator. Never compared between processes.
struct Time {
  Duration since_start{0};
  constexpr auto operator<=>(const Time&) const = default;
  constexpr Time operator+(Duration d) const { return {since_start + d}; }
  constexpr Time operator-(Duration d) const { return {since_start - d}; }
  constexpr Duration operator-(Time other) const { return since_start - other.since_start; }
  static constexpr Time max() { return {Duration::max()}; }
};

constexpr int64_t milliseconds(Duration d) { return std::chrono::duration_cast<std::chrono::milliseconds>(d).count(); }
constexpr int64_t microseconds(Duration d) { return std::chrono::duration_cast<std::chrono::microseconds>(d).count(); }
constexpr double seconds(Duration d) { return std::chrono::duration<double>(d).count(); }

}  // namespace millpond
