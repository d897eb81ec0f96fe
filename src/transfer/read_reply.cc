#include "transfer/read_reply.h"

#include <algorithm>

#include "base/checksum.h"
#include "wire/limits.h"
#include "wire/message.h"

namespace millpond::transfer {
namespace {
constexpr uint64_t kPageBytesDefault = 64 << 10;

// The verifier checks that a vector lies inside the message, not where it starts.
template <typename T>
bool aligned(std::span<const T> span) { return span.empty() || reinterpret_cast<uintptr_t>(span.data()) % alignof(T) == 0; }

bool inside(uint64_t first, uint64_t count, uint64_t size) { return first <= size && count <= size - first; }
}  // namespace

Result<ReadAnswer> parse_read_reply(wire::Kind kind, ByteSpan body, size_t asked) {
  if (kind != wire::Kind::read_reply) return error(Code::corrupt, "a read was answered by {}", wire::name(kind));
  MP_TRY(auto* reply, wire::parse<wire::ReadReply>(body));
  auto blocks = wire::span_of(reply->blocks());
  auto sums = wire::span_of(reply->sums());
  auto pages = wire::span_of(reply->pages());
  if (!aligned(blocks) || !aligned(sums) || !aligned(pages)) return error(Code::corrupt, "a read reply with vectors at odd addresses");
  if (blocks.size() != asked) return error(Code::corrupt, "read of {} blocks answered for {}", asked, blocks.size());
  ReadAnswer answer;
  answer.page_bytes = reply->page_bytes() ? reply->page_bytes() : kPageBytesDefault;
  answer.blocks.reserve(asked);
  for (auto& block : blocks) {
    auto& made = answer.blocks.emplace_back();
    if (Code(block.code()) != Code::ok) {
      made.ask_again = Code(block.code()) == Code::overloaded;
      continue;
    }
    if (block.length() == 0 || block.length() > wire::kBlockBytesMax)
      return error(Code::corrupt, "block of {} bytes in a read reply", block.length());
    uint64_t count = chunk_count(block.length());
    if (!inside(block.sum_first(), count, sums.size()))
      return error(Code::corrupt, "sums {} + {} of {}", block.sum_first(), count, sums.size());
    if (!inside(block.page_first(), block.page_count(), pages.size()))
      return error(Code::corrupt, "pages {} + {} of {}", block.page_first(), block.page_count(), pages.size());
    made.here = true;
    made.length = block.length();
    made.root = block.root();
    made.sums = sums.subspan(block.sum_first(), count);
    made.pages = pages.subspan(block.page_first(), block.page_count());
    made.page_offset = block.page_offset();
    made.arena = block.arena();
    answer.total_bytes += block.length();
  }
  return answer;
}

Result<std::vector<MutableByteSpan>> pieces_of_pages(MutableByteSpan arena, uint64_t page_bytes,
                                                     std::span<const uint32_t> pages, uint64_t offset, uint64_t length) {
  if (page_bytes == 0 || offset >= page_bytes || (offset > 0 && pages.size() != 1) ||
      length > pages.size() * page_bytes - std::min(offset, pages.size() * page_bytes))
    return error(Code::corrupt, "{} bytes at {} in {} pages of {} bytes", length, offset, pages.size(), page_bytes);
  uint64_t page_count = arena.size() / page_bytes;
  std::vector<MutableByteSpan> pieces;
  uint64_t left = length;
  for (uint32_t page : pages) {
    if (left == 0) break;
    if (page >= page_count) return error(Code::corrupt, "page {} of an arena of {}", page, page_count);
    uint64_t step = std::min(left, page_bytes - offset);
    auto* at = arena.data() + page * page_bytes + offset;
    if (!pieces.empty() && pieces.back().data() + pieces.back().size() == at)
      pieces.back() = {pieces.back().data(), pieces.back().size() + step};   // neighbours: one longer run
    else
      pieces.push_back({at, step});
    left -= step, offset = 0;
  }
  return pieces;
}

}  // namespace millpond::transfer
