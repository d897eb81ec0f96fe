// Seeded randomness (SplitMix64; Steele, Lea, Flood 2014): the same seed gives the same run on every machine.
#pragma once
#include <cstdint>

namespace millpond {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = (state_ += 0x9E3779B97F4A7C15ull);
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  uint64_t below(uint64_t bound) { return uint64_t((unsigned __int128)next() * bound >> 64); }   // REQUIRES: bound > 0
  double unit() { return double(next() >> 11) * 0x1p-53; }                                       // [0, 1)
  bool chance(double probability) { return unit() < probability; }

 private:
  uint64_t state_;
};

}  // namespace millpond
