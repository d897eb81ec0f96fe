// Which turn runs next, and where: in trace order, a session's turn on the engine after its previous one's, and only
// when that one has ended. One turn at a time per engine.
#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.h"
#include "replay/trace.h"

namespace millpond::replay {

// Round robin within each session, the first turns round robin too: no turn meets the engine of the turn before it.
inline uint32_t engine_of(const Turn& turn, uint32_t engines) { return (turn.session + turn.turn) % engines; }

class Dispatch {
 public:
  // speed: trace seconds per second; 0: as fast as the engines take them, order kept.
  // REQUIRES: engines > 0; the trace outlives this.
  Dispatch(const Trace& trace, uint32_t engines, double speed);

  // The next turn that may start now, marked as running; nullopt: none yet (see wait()) or none left.
  std::optional<uint32_t> next(Duration elapsed);
  // How long until next() may answer even if no turn ends; max(): only an end can change it.
  Duration wait(Duration elapsed) const;
  void ended(uint32_t turn);

  bool finished() const { return ended_ == trace_.turns.size(); }
  size_t turns_ended() const { return ended_; }

 private:
  bool blocked() const;            // its engine or its session is busy
  Duration due() const;            // when the next turn's timestamp comes

  const Trace& trace_;
  uint32_t engines_;
  double speed_;
  size_t next_ = 0;
  size_t ended_ = 0;
  std::vector<bool> engine_busy_;
  std::vector<bool> session_busy_;
};

}  // namespace millpond::replay
