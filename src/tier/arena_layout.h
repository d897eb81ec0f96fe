// Where what lies in an arena: its own header and the kind of each page in the first pages; header slots of 512 bytes in
// pages of kind `headers`; blocks everywhere else. All that a restart needs to know.
// Not synchronised. Limits: 2 TiB (a header slot's number has 32 bits). Format: docs/design/block-header.md.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "memory/arena.h"
#include "memory/slab_pool.h"
#include "wire/block_header.h"

namespace millpond::tier {

enum class PageKind : uint8_t { blocks = 0, arena = 1, headers = 2 };   // blocks: or free

inline constexpr uint32_t kHeaderSlotBytes = 512;
inline constexpr uint32_t kHeaderSlotContent = kHeaderSlotBytes - 8;
inline constexpr uint32_t kNoHeaderSlot = 0xFFFFFFFF;

constexpr uint32_t header_slots_for(size_t header_bytes) { return uint32_t((header_bytes + kHeaderSlotContent - 1) / kHeaderSlotContent); }

// At offset 0 of the arena.
struct ArenaHeader {
  uint64_t magic = 0;
  uint32_t layout_version = 0;
  uint32_t page_size = 0;
  uint32_t page_count = 0;
  uint32_t arena_pages = 0;              // of kind `arena`, from page 0 on
  uint64_t boot_counter = 0;             // of the last tier that wrote here; the next one takes a higher
  uint64_t removal_last = 0;             // number of the last removal that was applied; written by the node
  uint64_t zero[3] = {};
};
static_assert(sizeof(ArenaHeader) == 64);
inline constexpr uint64_t kArenaMagic = 0x31414E455241504Dull;   // "MPARENA1"
inline constexpr uint32_t kArenaLayoutVersion = 1;
inline constexpr uint64_t kPageKindsOffset = 4096;

uint32_t arena_pages_for(uint32_t page_count, Bytes page_size);

class ArenaLayout {
 public:
  // Writes header and page kinds of an empty arena. The arena must outlive this.
  static Result<ArenaLayout> format(memory::Arena& arena, uint64_t boot_counter);

  uint32_t arena_pages() const { return arena_pages_; }
  uint32_t slots_per_page() const { return slots_per_page_; }
  uint32_t slot_number(memory::SlabSlot slot) const { return slot.page.value * slots_per_page_ + slot.index; }
  memory::SlabSlot slot(uint32_t number) const { return {memory::PageIndex(number / slots_per_page_), number % slots_per_page_}; }

  void add_header_page(memory::PageIndex page);      // its slots are empty from now on
  void remove_header_page(memory::PageIndex page);   // REQUIRES: every slot was cleared
  void set_boot_counter(uint64_t boot_counter);

  // Writes an encoded header (wire/block_header.h) into the chain `slots`: everything but the commit word, then that.
  // REQUIRES: slots.size() == header_slots_for(encoded.size()).
  void write_header(std::span<const uint32_t> slots, ByteSpan encoded);
  void read_header(std::span<const uint32_t> slots, uint64_t offset, MutableByteSpan target) const;
  void clear_header(std::span<const uint32_t> slots);   // commit word first

 private:
  explicit ArenaLayout(memory::Arena& arena) : arena_(&arena) {}
  std::byte* slot_at(uint32_t number) const;
  memory::Arena* arena_;
  uint32_t arena_pages_ = 0;
  uint32_t slots_per_page_ = 0;
};

// What an arena says about its blocks; also of another process, also read-only.
struct ArenaScan {
  ArenaHeader arena;
  std::vector<wire::BlockHeader> blocks;   // committed (condemned ones too), in the order of their slots
  uint64_t corrupt = 0;                    // headers that say committed and do not decode, or name a page outside
};
// Answers: corrupt (not an arena of ours, another layout version; says what).
Result<ArenaScan> scan(const memory::Arena& arena);

}  // namespace millpond::tier
