#include "base/status.h"

namespace millpond {

std::string_view name(Code code) {
  switch (code) {
    case Code::ok: return "ok";
    case Code::miss: return "miss";
    case Code::invalid: return "invalid";
    case Code::no_space: return "no_space";
    case Code::timed_out: return "timed_out";
    case Code::unavailable: return "unavailable";
    case Code::corrupt: return "corrupt";
    case Code::stale: return "stale";
    case Code::refused: return "refused";
    case Code::overloaded: return "overloaded";
    case Code::exists: return "exists";
    case Code::internal: return "internal";
  }
  return "unknown";
}

std::string Status::text() const {
  return message_.empty() ? std::string(name(code_)) : fmt::format("{}: {}", name(code_), message_);
}

}  // namespace millpond
