#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace millpond {
void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "millpond: %s:%d: check failed: %s %s\n", file, line, condition, message.c_str());
  std::abort();
}
}  // namespace millpond
