// An Owner over one connection: reads are the same on every way, writes are a call of the way's own.
#pragma once
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "transfer/owner.h"
#include "transfer/read_call.h"
#include "transfer/way.h"

namespace millpond::transfer {

template <typename OwnWay, typename WriteCall>
class WayOwner : public Owner {
 public:
  WayOwner(rpc::PeerAddress peer, rpc::Runtime& runtime, Metrics& metrics, const char* transport)
      : way_(std::make_shared<OwnWay>(std::move(peer), runtime, metrics)), transport_(transport) {}

  void read(std::vector<ReadItem> items, Time deadline, std::function<void(std::vector<ReadOutcome>)> done) override {
    std::make_shared<ReadCall>(way_, std::move(items), deadline, std::move(done))->start();
  }
  void write(std::vector<WriteItem> items, Time deadline, bool visible, std::function<void(std::vector<WriteOutcome>)> done) override {
    std::make_shared<WriteCall>(way_, std::move(items), deadline, visible, std::move(done))->start();
  }
  void recheck(std::vector<BlockId> ids, Time deadline, std::function<void(std::vector<Code>)> done) override {
    send_recheck(way_, std::move(ids), deadline, std::move(done));
  }
  const char* transport() const override { return transport_; }

 private:
  const std::shared_ptr<OwnWay> way_;
  const char* const transport_;
};

}  // namespace millpond::transfer
