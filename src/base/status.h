// What went wrong in the world, as a value. Each code tells the caller what to do; two codes that lead to the same
// action would be one code. What only we can have caused is MP_CHECK (base/check.h), not a Status.
#pragma once
#include <fmt/core.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace millpond {

enum class Code : uint8_t {
  ok = 0,
  miss = 1,              // nobody has it: compute it
  invalid = 2,           // the request itself is wrong: mend it, do not retry
  no_space = 3,          // nothing can leave by the deadline: go on without storing
  timed_out = 4,         // the deadline passed: go on as if it were a miss
  unavailable = 5,       // the peer cannot be reached or hung up: try another replica, later this one
  corrupt = 6,           // the bytes or the message do not verify: this copy is of no use, report it
  stale = 7,             // epoch, term, generation or namespace generation of a former life: look up again
  refused = 8,           // the peer will not (cluster id, cluster key, protocol range): an operator must act
  overloaded = 9,        // a bounded queue is full: back off
  exists = 10,           // stored before; the first bytes stay
  internal = 11,         // a bug on the other side that did not stop it
};

std::string_view name(Code code);   // "no_space"

class [[nodiscard]] Status {
 public:
  Status() = default;                                   // ok
  explicit Status(Code code) : code_(code) {}
  Status(Code code, std::string message) : code_(code), message_(std::move(message)) {}
  // The message is for people: what was wrong, which value, what to do.
  template <typename First, typename... Rest>
  Status(Code code, fmt::format_string<First, Rest...> text, First&& first, Rest&&... rest)
      : code_(code), message_(fmt::format(text, std::forward<First>(first), std::forward<Rest>(rest)...)) {}

  bool ok() const { return code_ == Code::ok; }
  Code code() const { return code_; }
  const std::string& message() const { return message_; }
  std::string text() const;                             // "no_space: arena of 64 MiB holds only protected blocks"

 private:
  Code code_ = Code::ok;
  std::string message_;
};

template <typename T>
using Result = tl::expected<T, Status>;

inline tl::unexpected<Status> error(Status status) { return tl::unexpected<Status>(std::move(status)); }
template <typename... Args>
tl::unexpected<Status> error(Code code, fmt::format_string<Args...> text, Args&&... args) {
  return tl::unexpected<Status>(Status(code, fmt::format(text, std::forward<Args>(args)...)));
}

}  // namespace millpond

// MP_TRY(value, expression): value = what the Result holds, or return its Status from this function.
#define MP_TRY(value, ...) MP_TRY_(value, (__VA_ARGS__), __COUNTER__)
#define MP_TRY_(value, expression, n) MP_TRY__(value, expression, n)
#define MP_TRY__(value, expression, n)                                        \
  auto mp_result_##n = expression;                                            \
  if (!mp_result_##n) return ::millpond::Failure{std::move(mp_result_##n).error()}; \
  value = *std::move(mp_result_##n)
// MP_OK(status_expression): return it from this function (Status or Result) unless ok.
#define MP_OK(...)                                                            \
  do {                                                                        \
    ::millpond::Status mp_status = (__VA_ARGS__);                             \
    if (!mp_status.ok()) return ::millpond::Failure{std::move(mp_status)};    \
  } while (0)

namespace millpond {
struct Failure {   // converts to whatever the surrounding function returns
  Status status;
  operator Status() && { return std::move(status); }
  template <typename T>
  operator Result<T>() && { return tl::unexpected<Status>(std::move(status)); }
};
}  // namespace millpond
