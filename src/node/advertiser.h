// The node's side of the one ordered stream: tells the master what stands in the tier, hears what becomes of it.
//
// A state machine that takes `now`. It decides what to send (a join, a batch, nothing) and what an answer means; the
// shell sends. At most one join or batch is under way. Lives on: the node's loop.
// Limits: batch_max items in a batch; waiters_max stores that wait for an answer (beyond it they do not wait).
// Design: docs/design/node.md; the meaning of the messages: docs/design/protocol.md.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/block_id.h"
#include "base/status.h"
#include "base/time.h"
#include "tier/dram_tier.h"

namespace millpond::node {

enum class AdvertKind : uint8_t { add = 0, inventory = 1, evict = 2, drop = 3 };        // = wire::AdvertKind
enum class AdvertAnswer : uint8_t { first = 0, replica = 1, refused = 2, removed = 3, noted = 4 };   // = wire::AdvertAnswer

struct AdvertItem {
  AdvertKind kind = AdvertKind::add;
  tier::DropReason reason = tier::DropReason::none;
  BlockId id;
  uint64_t root = 0;
  uint64_t length = 0;
  uint64_t event = 0;                    // sequence of the tier's event; 0: read from the table
};

struct Batch {
  uint64_t term = 0;
  uint64_t sequence_first = 0;
  std::vector<AdvertItem> items;
  uint64_t removals_seen = 0;
  uint32_t round = 0;
  bool inventory_complete = false;
};

// What became of a stored block.
enum class Visibility : uint8_t {
  visible,                               // the master has answered: readers elsewhere find it
  exists,                                // other bytes were first under this key; our copy is dropped, theirs stay
  removed,                               // removed while it was stored
  pending,                               // stored here; the master will hear of it later
};

class Advertiser {
 public:
  struct Options {
    size_t batch_max = 1024;
    Duration master_deadline = std::chrono::seconds(1);
    Duration join_retry = std::chrono::milliseconds(500);
    size_t waiters_max = 64 << 10;       // a store batch is one waiter; a client has few under way
  };
  enum class State : uint8_t { away, joining, joined };
  using Done = std::function<void(std::vector<Visibility>)>;

  Advertiser(Options options, tier::DramTier& tier) : options_(options), tier_(tier) {}

  // What to send now. `call` goes back in with the answer: answers of earlier calls are ignored.
  struct Send {
    uint64_t call = 0;
    const Batch* batch = nullptr;        // null: a join. Valid until the next call of this object
  };
  std::optional<Send> next(Time now, uint64_t removals_seen);
  Time wake_at() const;                  // when next() or tick() has something to do without any answer
  void tick(Time now);                   // ends waits whose time is up

  // Answer to a join. False: not accepted (an old answer, a code, or a lower term): apply nothing of it.
  // True: the caller applies the removals in it before next() is called.
  bool join_answered(uint64_t call, Code code, uint64_t term, uint32_t round, Time now);
  void batch_answered(uint64_t call, Code code, uint64_t acked, std::span<const uint8_t> answers, Time now);
  void call_failed(uint64_t call, Code code, Time now);   // no answer, or a Failure

  void rejoin(Time now);                 // the master said stale (heartbeat), or a later term was seen
  void heard(Time now);                  // a heartbeat was answered
  void missed(Time now);                 // a heartbeat missed its deadline
  // A message of a master of this term: false if a later one was seen before.
  bool accepts_term(uint64_t term, Time now);

  // Calls back, through take_done(), when the events with these sequences are answered, at `until` at the latest, and
  // at once when the master is away or waiters_max is reached. One outcome per sequence.
  void wait(std::vector<uint64_t> sequences, Time until, Done done, Time now);
  struct Finished {
    Done done;
    std::vector<Visibility> outcomes;
  };
  void end_all_waits();
  std::vector<Finished> take_done();     // run these outside; they may call wait() again

  State state() const { return state_; }
  bool master_away() const { return stream_missed_ || heartbeat_missed_; }
  bool inventory_complete() const { return state_ == State::joined && inventory_ == Inventory::complete; }
  uint64_t answered() const { return answered_; }   // the master has heard of the tier's events up to here
  uint64_t unadvertised() const;         // events it has not answered
  uint64_t term() const { return term_; }
  uint64_t joins() const { return joins_; }
  struct Counts {
    uint64_t resyncs = 0;                // joins because of a gap, stale, lost events or a broken answer
    uint64_t resent = 0;                 // batches sent again
    uint64_t refused = 0;                // copies dropped because other bytes were first
    uint64_t removed = 0;                // copies dropped because of a removal this node had not seen
    uint64_t pending = 0;                // stores that ended before the master had answered
  };
  const Counts& counts() const { return counts_; }

 private:
  enum class Inventory : uint8_t { due, walking, last_chunk_sent, complete };
  struct Wait {
    std::vector<uint64_t> sequences;
    std::vector<Visibility> outcomes;
    size_t open = 0;
    Time until;
    Done done;
  };

  void go_away(Time now, bool resync);
  bool build(uint64_t removals_seen);
  void drop_copy(const AdvertItem& item, tier::DropReason reason);
  void answer_event(uint64_t event, Visibility visibility);
  void end_wait(uint64_t wait);

  const Options options_;
  tier::DramTier& tier_;
  State state_ = State::away;
  Time join_at_{};                       // away: not before
  Time joined_at_{};                     // when the last join was sent
  bool ever_sent_ = false;
  uint64_t term_ = 0;                    // highest seen
  uint64_t joined_term_ = 0;
  uint32_t round_ = 0;
  uint64_t joins_ = 0;
  bool stream_missed_ = false;
  bool heartbeat_missed_ = false;

  uint64_t call_ = 0;
  bool under_way_ = false;
  std::optional<Batch> batch_;           // sent and not answered
  Time resend_at_{};
  std::vector<AdvertItem> retold_;       // events of a batch whose round ended: first in the next one
  uint64_t sequence_next_ = 1;
  Inventory inventory_ = Inventory::due;
  uint64_t cursor_ = 0;
  uint64_t covered_ = 0;                 // last event when the round began: its inventory tells all of them
  uint64_t answered_ = 0;                // last event answered

  uint64_t wait_next_ = 1;
  std::unordered_map<uint64_t, Wait> waits_;
  std::map<uint64_t, std::pair<uint64_t, size_t>> by_event_;   // event → wait, position
  std::set<std::pair<Time, uint64_t>> by_end_;
  std::vector<Finished> done_;
  Counts counts_;
};

}  // namespace millpond::node
