#include "tier/arena_layout.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/check.h"
#include "base/reached.h"

namespace millpond::tier {
namespace {

using memory::PageIndex;

enum SlotRole : uint32_t { kFree = 0, kFirst = 1, kContinued = 2 };
struct SlotHead {
  uint32_t next;
  uint32_t role;
};
static_assert(sizeof(SlotHead) + kHeaderSlotContent == kHeaderSlotBytes);

std::atomic_ref<uint64_t> commit_word(std::byte* first_slot) {
  return std::atomic_ref<uint64_t>(*reinterpret_cast<uint64_t*>(first_slot + sizeof(SlotHead)));
}

SlotHead head_of(const std::byte* slot) {
  SlotHead head;
  std::memcpy(&head, slot, sizeof head);
  return head;
}

}  // namespace

uint32_t arena_pages_for(uint32_t page_count, Bytes page_size) {
  return uint32_t((kPageKindsOffset + page_count + page_size.count - 1) / page_size.count);
}

Result<ArenaLayout> ArenaLayout::format(memory::Arena& arena, uint64_t boot_counter) {
  ArenaLayout layout(arena);
  layout.slots_per_page_ = uint32_t(arena.page_size().count / kHeaderSlotBytes);
  if (uint64_t(arena.page_count()) * layout.slots_per_page_ > kNoHeaderSlot) {
    return error(Code::invalid, "arena of {}: one arena holds less than 2 TiB", text(Bytes{arena.bytes().size()}));
  }
  layout.arena_pages_ = arena_pages_for(arena.page_count(), arena.page_size());
  if (arena.page_count() < layout.arena_pages_ + 4) {
    return error(Code::invalid, "arena of {} has {} pages of {}: at least {} are needed; set a larger memory", text(Bytes{arena.bytes().size()}),
                 arena.page_count(), text(arena.page_size()), layout.arena_pages_ + 4);
  }
  std::byte* base = arena.bytes().data();
  std::memset(base + kPageKindsOffset, int(PageKind::blocks), arena.page_count());
  std::memset(base + kPageKindsOffset, int(PageKind::arena), layout.arena_pages_);
  ArenaHeader header{.magic = kArenaMagic, .layout_version = kArenaLayoutVersion, .page_size = uint32_t(arena.page_size().count),
                     .page_count = arena.page_count(), .arena_pages = layout.arena_pages_, .boot_counter = boot_counter};
  std::memcpy(base, &header, sizeof header);
  return layout;
}

std::byte* ArenaLayout::slot_at(uint32_t number) const {
  auto at = slot(number);
  return arena_->page(at.page) + uint64_t(at.index) * kHeaderSlotBytes;
}

void ArenaLayout::set_boot_counter(uint64_t boot_counter) {
  std::memcpy(arena_->bytes().data() + offsetof(ArenaHeader, boot_counter), &boot_counter, sizeof boot_counter);
}

void ArenaLayout::add_header_page(PageIndex page) {
  // What stood here were a block's bytes: they must not read as headers once the page's kind says so.
  std::byte* at = arena_->page(page);
  for (uint32_t i = 0; i < slots_per_page_; ++i) {
    std::memset(at + uint64_t(i) * kHeaderSlotBytes, 0, sizeof(SlotHead) + wire::kBlockHeaderCommitBytes);
  }
  std::atomic_thread_fence(std::memory_order_release);
  arena_->bytes()[kPageKindsOffset + page.value] = std::byte(PageKind::headers);
}

void ArenaLayout::remove_header_page(PageIndex page) {
  arena_->bytes()[kPageKindsOffset + page.value] = std::byte(PageKind::blocks);
}

void ArenaLayout::write_header(std::span<const uint32_t> slots, ByteSpan encoded) {
  MP_CHECK(slots.size() == header_slots_for(encoded.size()), "{} slots for a header of {} bytes", slots.size(), encoded.size());
  uint64_t commit;
  std::memcpy(&commit, encoded.data(), sizeof commit);
  ByteSpan left = encoded;
  for (size_t i = 0; i < slots.size(); ++i) {
    std::byte* at = slot_at(slots[i]);
    SlotHead head{i + 1 < slots.size() ? slots[i + 1] : kNoHeaderSlot, i == 0 ? kFirst : kContinued};
    std::memcpy(at, &head, sizeof head);
    size_t here = std::min<size_t>(left.size(), kHeaderSlotContent);
    size_t skip = i == 0 ? wire::kBlockHeaderCommitBytes : 0;
    std::memcpy(at + sizeof head + skip, left.data() + skip, here - skip);
    left = left.subspan(here);
  }
  commit_word(slot_at(slots[0])).store(commit, std::memory_order_release);
}

void ArenaLayout::read_header(std::span<const uint32_t> slots, uint64_t offset, MutableByteSpan target) const {
  MP_CHECK(offset + target.size() <= slots.size() * uint64_t(kHeaderSlotContent), "bytes {} … {} of a header in {} slots", offset, offset + target.size(), slots.size());
  while (!target.empty()) {
    size_t within = offset % kHeaderSlotContent;
    size_t here = std::min<size_t>(target.size(), kHeaderSlotContent - within);
    std::memcpy(target.data(), slot_at(slots[offset / kHeaderSlotContent]) + sizeof(SlotHead) + within, here);
    target = target.subspan(here);
    offset += here;
  }
}

void ArenaLayout::clear_header(std::span<const uint32_t> slots) {
  // Read-modify-write with acquire: nothing that is written to the block's pages later can come before it.
  commit_word(slot_at(slots[0])).exchange(0, std::memory_order_acq_rel);
  for (uint32_t number : slots) {
    SlotHead head{kNoHeaderSlot, kFree};
    std::memcpy(slot_at(number), &head, sizeof head);
  }
}

Result<ArenaScan> scan(const memory::Arena& arena) {
  ArenaScan result;
  ArenaHeader& header = result.arena;
  ByteSpan bytes = arena.bytes();
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kArenaMagic) return error(Code::corrupt, "arena: magic {:#x} is not ours", header.magic);
  if (header.layout_version != kArenaLayoutVersion) return error(Code::corrupt, "arena: layout version {}, this release reads {}", header.layout_version, kArenaLayoutVersion);
  if (header.page_size != arena.page_size().count || header.page_count != arena.page_count() || header.arena_pages != arena_pages_for(header.page_count, arena.page_size())) {
    return error(Code::corrupt, "arena: says {} pages of {}, is {} of {}", header.page_count, text(Bytes{header.page_size}), arena.page_count(), text(arena.page_size()));
  }
  uint32_t per_page = header.page_size / kHeaderSlotBytes;
  auto at = [&](uint64_t number) { return bytes.data() + number * kHeaderSlotBytes; };
  auto holds_headers = [&](uint64_t number) {
    return number / per_page < header.page_count && bytes[kPageKindsOffset + number / per_page] == std::byte(PageKind::headers);
  };
  auto named_pages_exist = [&](const wire::BlockHeader& block) {
    return std::ranges::all_of(block.pages, [&](uint32_t page) { return page >= header.arena_pages && page < header.page_count; });
  };
  ByteVector content;
  for (uint64_t number = 0; number < uint64_t(header.page_count) * per_page; ++number) {
    if (!holds_headers(number)) {
      number += per_page - 1;   // the whole page
      continue;
    }
    if (head_of(at(number)).role != kFirst) continue;
    auto total = wire::block_header_bytes(ByteSpan(at(number) + sizeof(SlotHead), kHeaderSlotContent));
    if (!total) {
      result.corrupt += total.error().code() == Code::corrupt;
      continue;
    }
    content.clear();
    uint64_t next = number;
    for (uint32_t left = header_slots_for(*total); left > 0 && holds_headers(next); --left) {   // bounded: a chain may bite its tail
      content.insert(content.end(), at(next) + sizeof(SlotHead), at(next) + kHeaderSlotBytes);
      next = head_of(at(next)).next;
    }
    auto block = wire::decode_block_header(content);
    if (block && named_pages_exist(*block)) {
      result.blocks.push_back(*std::move(block));
    } else {
      MP_REACHED("arena scan: corrupt header");
      ++result.corrupt;
    }
  }
  return result;
}

}  // namespace millpond::tier
