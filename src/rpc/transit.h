// How long a frame waited in buffers, told from when it was sent (peer's clock) and when it was read (ours), both since Hello.
// The difference of the two also holds what the clocks have drifted apart, which is slow; waiting is not. So the least
// difference seen counts as no waiting, and may rise by 500 ppm (twice what a clock that still counts as working does).
// Errs towards serving: the first frame is taken as unhindered.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>

namespace millpond::rpc {

class Transit {
 public:
  // Milliseconds that this frame waited. Anything may come from the peer: no value breaks it.
  uint64_t waited_ms(uint64_t sent_ms, uint64_t read_ms) {
    int64_t difference = int64_t(std::min(read_ms, kLimit)) - int64_t(std::min(sent_ms, kLimit));
    if (!least_us_) {
      least_us_ = difference * 1000;
    } else {
      int64_t passed_ms = int64_t(std::min(read_ms, kLimit)) - int64_t(read_last_ms_);
      least_us_ = std::min(difference * 1000, *least_us_ + std::max<int64_t>(passed_ms, 0) / 2);   // 500 ppm = 0.5 us per ms
    }
    read_last_ms_ = std::min(read_ms, kLimit);
    int64_t waited = difference - *least_us_ / 1000 - 1;   // both stamps are cut to whole milliseconds
    return uint64_t(std::max<int64_t>(waited, 0));
  }

 private:
  static constexpr uint64_t kLimit = 1ull << 42;   // 139 years
  std::optional<int64_t> least_us_;
  uint64_t read_last_ms_ = 0;
};

}  // namespace millpond::rpc
