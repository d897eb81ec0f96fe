#include "replay/dispatch.h"

#include "base/check.h"

namespace millpond::replay {

Dispatch::Dispatch(const Trace& trace, uint32_t engines, double speed)
    : trace_(trace), engines_(engines), speed_(speed), engine_busy_(engines), session_busy_(trace.sessions.size()) {
  MP_CHECK(engines > 0, "a dispatch without engines");
}

bool Dispatch::blocked() const {
  const Turn& turn = trace_.turns[next_];
  return engine_busy_[engine_of(turn, engines_)] || session_busy_[turn.session];
}

Duration Dispatch::due() const {
  if (speed_ <= 0) return Duration(0);
  double ms = double(trace_.turns[next_].timestamp_ms - trace_.turns[0].timestamp_ms) / speed_;
  return ms < 9e12 ? Duration(int64_t(ms * 1e6)) : Duration::max();   // beyond 285 years: never
}

std::optional<uint32_t> Dispatch::next(Duration elapsed) {
  if (next_ == trace_.turns.size() || blocked() || due() > elapsed) return std::nullopt;
  const Turn& turn = trace_.turns[next_];
  engine_busy_[engine_of(turn, engines_)] = true;
  session_busy_[turn.session] = true;
  return uint32_t(next_++);
}

Duration Dispatch::wait(Duration elapsed) const {
  if (next_ == trace_.turns.size() || blocked()) return Duration::max();
  return due() > elapsed ? due() - elapsed : Duration(0);
}

void Dispatch::ended(uint32_t index) {
  const Turn& turn = trace_.turns[index];
  engine_busy_[engine_of(turn, engines_)] = false;
  session_busy_[turn.session] = false;
  ++ended_;
}

}  // namespace millpond::replay
