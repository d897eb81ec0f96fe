// If only we can have caused it, stop: a wrong block served is worse than a node lost. On in release too.
#pragma once
#include <fmt/format.h>

#include <string>

namespace millpond {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);
}

#define MP_CHECK(condition, ...)                                                                       \
  do {                                                                                                 \
    if (__builtin_expect(!(condition), 0))                                                             \
      ::millpond::check_failed(__FILE__, __LINE__, #condition, ::fmt::format("" __VA_ARGS__));          \
  } while (0)
