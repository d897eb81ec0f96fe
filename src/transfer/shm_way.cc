#include "transfer/shm_way.h"

#include "base/reached.h"

namespace millpond::transfer {

ShmWay::ShmWay(rpc::PeerAddress peer, rpc::Runtime& runtime, Metrics& metrics)
    : Way(runtime, metrics, "shm"), peer_(std::move(peer)), channel_(runtime.channel(peer_)) {}

std::shared_ptr<rpc::Channel> ShmWay::channel() {
  Lock lock(mutex_);
  return channel_;
}

void ShmWay::hang_up() {
  MP_REACHED("transfer: shm hung up");
  auto fresh = runtime.channel(peer_);
  Lock lock(mutex_);
  channel_.swap(fresh);                  // in-flight calls of the old one end with unavailable
}

Result<MutableByteSpan> ShmWay::mapping(uint16_t arena, bool writable) {
  auto& mapped = arenas_[{arena, writable}];
  if (!mapped) {
    auto fds = channel()->shared_fds();  // per arena: read-write, read-only
    size_t at = 2 * size_t(arena) + (writable ? 0 : 1);
    if (at >= fds.size()) return error(Code::unavailable, "arena {} is not shared; {} descriptors are", arena, fds.size());
    MP_TRY(mapped, memory::Arena::map(fds[at], KiB(64), writable));   // the page size is the reply's; this one is not used
  }
  return mapped->bytes();
}

Result<memory::SourcePieces> ShmWay::source(const ReadAnswer& answer, const BlockAnswer& block) {
  MP_TRY(auto arena, mapping(block.arena, false));
  MP_TRY(auto pieces, pieces_of_pages(arena, answer.page_bytes, block.pages, block.page_offset, block.length));
  return memory::SourcePieces(pieces.begin(), pieces.end());
}

Result<memory::TargetPieces> ShmWay::target(uint16_t arena, uint64_t page_bytes, std::span<const uint32_t> pages,
                                            uint64_t offset, uint64_t length) {
  MP_TRY(auto bytes, mapping(arena, true));
  return pieces_of_pages(bytes, page_bytes, pages, offset, length);
}

}  // namespace millpond::transfer
