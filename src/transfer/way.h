// A connection to one owner, as the calls that use it see it. Calls hold it weakly: when its Owner is destroyed the
// channel goes, and whatever is in flight ends with `unavailable`.
#pragma once
#include <memory>

#include "base/log.h"
#include "memory/piece.h"
#include "rpc/runtime.h"
#include "transfer/counters.h"
#include "transfer/owner.h"
#include "transfer/read_reply.h"

namespace millpond::transfer {

class Way {
 public:
  Way(rpc::Runtime& runtime, Metrics& metrics, const char* transport) : runtime(runtime), counters(metrics, transport) {}
  virtual ~Way() = default;

  virtual std::shared_ptr<rpc::Channel> channel() = 0;
  // True: blocks are copied from `source()`; false: they land from the socket.
  virtual bool places() const { return false; }
  // Where the owner says a block stands, in our mapping. corrupt: not inside it; unavailable: nothing is mapped.
  virtual Result<memory::SourcePieces> source(const ReadAnswer&, const BlockAnswer&) {
    return error(Code::unavailable, "no mapping");
  }

  // A peer's answer that cannot be: counted each time, logged once in a while. Loop only.
  void complain(const Status& about) {
    counters.bad_replies.add();
    if (runtime.now() < quiet_until_) return;
    quiet_until_ = runtime.now() + std::chrono::seconds(10);
    log::warn("transfer: {}", about.text());
  }

  rpc::Runtime& runtime;
  Counters counters;

 private:
  Time quiet_until_{Duration::min()};
};

// What a failed call means for its blocks: only "too late" and "full" tell the caller something else than "ask another".
inline Code outcome_of(Code failure) {
  return failure == Code::timed_out || failure == Code::no_space || failure == Code::invalid ? failure : Code::unavailable;
}

// A code out of a peer's message. One that this release does not know is `internal`.
inline Code code_of_peer(uint8_t code) { return code <= uint8_t(Code::internal) ? Code(code) : Code::internal; }

// Sends Recheck; each answer is ok, corrupt, miss, or how the call failed.
void send_recheck(const std::shared_ptr<Way>& way, std::vector<BlockId> ids, Time deadline,
                  std::function<void(std::vector<Code>)> done);

}  // namespace millpond::transfer
