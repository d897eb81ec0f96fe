// The connection to an owner on this host, over its Unix socket, and the owner's arenas mapped into this process.
#pragma once
#include <map>
#include <memory>

#include "base/mutex.h"
#include "memory/arena.h"
#include "transfer/way.h"

namespace millpond::transfer {

class ShmWay : public Way {
 public:
  ShmWay(rpc::PeerAddress peer, rpc::Runtime& runtime, Metrics& metrics);

  std::shared_ptr<rpc::Channel> channel() override;
  bool places() const override { return true; }
  Result<memory::SourcePieces> source(const ReadAnswer& answer, const BlockAnswer& block) override;
  // Where a reservation is to be filled.
  Result<memory::TargetPieces> target(uint16_t arena, uint64_t page_bytes, std::span<const uint32_t> pages, uint64_t offset,
                                      uint64_t length);
  // Hangs up, so that the owner takes back what this connection has reserved; the next call connects again.
  void hang_up();

 private:
  // Maps at first use. Loop only. unavailable: the owner shared no such arena.
  Result<MutableByteSpan> mapping(uint16_t arena, bool writable);

  const rpc::PeerAddress peer_;
  Mutex mutex_;
  std::shared_ptr<rpc::Channel> channel_ GUARDED_BY(mutex_);
  std::map<std::pair<uint16_t, bool>, std::unique_ptr<memory::Arena>> arenas_;   // loop only
};

}  // namespace millpond::transfer
