#include "base/bytes.h"

#include <fmt/format.h>

namespace millpond {
std::string text(Bytes bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = double(bytes.count);
  int unit = 0;
  while (value >= 1024 && unit < 5) value /= 1024, ++unit;
  if (unit == 0 || value == double(uint64_t(value))) return fmt::format("{:.0f} {}", value, kUnits[unit]);
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}
}  // namespace millpond
