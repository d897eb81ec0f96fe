// One read(): batches out, blocks landed or copied, every block verified; what does not verify is asked for once more.
// Lives on: the runtime's loop, after start().
#pragma once
#include <deque>
#include <memory>
#include <vector>

#include "transfer/block_check.h"
#include "transfer/owner.h"
#include "transfer/way.h"

namespace millpond::transfer {

class ReadCall : public std::enable_shared_from_this<ReadCall> {
 public:
  using Done = std::function<void(std::vector<ReadOutcome>)>;
  ReadCall(std::shared_ptr<Way> way, std::vector<ReadItem> items, Time deadline, Done done);
  void start();                          // any thread

 private:
  struct Batch {
    std::vector<uint32_t> positions;     // in items_
    bool again = false;                  // the second attempt
  };
  // A batch whose answer is here, being verified.
  struct Check;

  void pump();
  void send(Batch batch);
  Result<rpc::Landing> land(const Batch& batch, wire::Kind kind, ByteSpan body, uint64_t payload_bytes);
  void answered(Batch batch, Result<rpc::Reply> reply);
  void verify(std::shared_ptr<Check> check);
  void verified(Check& check);
  void settle(uint32_t position, Code code, uint64_t length = 0) { outcomes_[position] = {code, length}; }
  void recheck(std::vector<BlockId> ids);

  std::weak_ptr<Way> way_;
  rpc::Runtime& runtime_;
  const std::vector<ReadItem> items_;
  std::vector<uint64_t> room_;           // bytes of each target
  const Time deadline_;
  Done done_;
  std::vector<ReadOutcome> outcomes_;
  std::deque<Batch> queue_;
  size_t in_flight_ = 0;
};

}  // namespace millpond::transfer
