// Keeps blocks in the arena: who is here, where its bytes are, who leaves next.
//
// A block is a list of pages (or a slot of a shared page when small) plus a header in a header page. Its life:
// reserved → committed → (evicted: condemned) → free. Only committed and condemned blocks can be read. Everything that
// the cluster must hear of is an Event, in one order.
// Lives on: any thread; one mutex inside, never held while bytes move.
// Limits: block length ≤ min(capacity, 2 GiB); keys ≤ 4096 bytes; events_max unread events.
// Design: docs/design/tier.md.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/block_id.h"
#include "base/checksum.h"
#include "base/metrics.h"
#include "base/time.h"
#include "memory/arena.h"
#include "tier/eviction.h"

namespace millpond::tier {

using memory::ArenaIndex;
using memory::PageIndex;

// Where a block's bytes are: whole pages in order, or `offset` inside the only page.
struct Places {
  ArenaIndex arena{};
  std::vector<PageIndex> pages;
  uint32_t offset = 0;
};

struct BlockSpec {
  BlockId id;
  BlockId parent;                        // none(): a first block, or unknown
  std::string_view key;                  // the full key, kept once, in the header
  uint64_t length = 0;
  uint32_t namespace_generation = 0;
};

// Room for one block, ours until commit() or destruction (which gives it back). Move-only.
class Reservation {
 public:
  Reservation(Reservation&&) noexcept;
  Reservation& operator=(Reservation&&) noexcept;
  ~Reservation();

  uint64_t handle() const;               // of the slot; with generation() it names this reservation and no later one
  Generation generation() const;
  const Places& places() const;
  const std::vector<MutableByteSpan>& pieces() const;   // where the bytes go, in order; total = length
  const BlockId& id() const;
  uint64_t length() const;

 private:
  friend class DramTier;
  struct State;
  explicit Reservation(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

enum class EventKind : uint8_t { add, evict, drop };
enum class DropReason : uint16_t { none, removed, wiped, corrupt, refused, replaced };
std::string_view name(DropReason reason);

struct Event {
  uint64_t sequence = 0;                 // counts from 1, no gaps
  EventKind kind = EventKind::add;
  DropReason reason = DropReason::none;
  BlockId id;
  uint64_t root = 0;
  uint64_t length = 0;
};

// What a read may copy from. The memory may be reused while it is copied: verify the copy (base/checksum.h).
struct View {
  BlockId id;
  uint64_t length = 0;
  uint64_t root = 0;
  std::vector<uint64_t> sums;
  Generation generation{};
  Places places;
  std::vector<ByteSpan> pieces;
};

struct BlockInfo {
  BlockId id;
  BlockId parent;
  uint64_t length = 0;
  uint64_t root = 0;
  uint32_t namespace_generation = 0;
};

struct DramUsage {
  Bytes capacity;                        // whole arena
  Bytes live;                            // payload bytes of committed blocks that are not condemned
  Bytes condemned;
  Bytes reserved;
  Bytes free;                            // free pages
  Bytes overhead;                        // header pages, page tails: capacity = live + condemned + reserved + free + overhead
  Bytes protected_bytes;
  uint64_t blocks = 0;
};

class DramTier {
 public:
  struct Options {
    Bytes capacity = GiB(1);
    Bytes page_size = KiB(64);
    bool hugepages = true;
    double condemned_fraction = 0.03;    // of the arena: victims that loads still find
    double protected_fraction = 0.5;     // of the arena: budget for looked-up blocks
    Duration protection = std::chrono::seconds(10);
    uint32_t boot_counter = 1;           // upper half of slot generations
    size_t events_max = 1 << 20;         // beyond it events are lost and events_lost() says so: full inventory
    std::string name = "millpond";
  };

  // invalid: capacity out of range or more than the machine has.
  static Result<std::unique_ptr<DramTier>> open(Options options, std::unique_ptr<EvictionPolicy> policy, Metrics& metrics);
  ~DramTier();

  // Room for one block, evicting by bytes as needed. Answers: exists (committed, or being written by another);
  // no_space (what remains is protected, reserved or in use); stale (namespace generation is older than raise_generation
  // said); invalid (length 0 or larger than a block may be, bad key).
  Result<Reservation> reserve(const BlockSpec& spec, Time now);

  // Makes a reserved block readable: header with `sums` and `root`, commit word last. Does not hash (the writer's sums
  // are the truth; who received bytes over a wire verifies first). Returns the sequence of its add event.
  // exists: somebody else committed this id meanwhile; stale: the namespace was wiped or the id removed meanwhile.
  Result<uint64_t> commit(Reservation reservation, std::span<const uint64_t> sums, uint64_t root, Time now);

  // Finds a committed or condemned block. Refreshes recency unless `peek`; reading a condemned block does not revive it.
  std::optional<View> find(const BlockId& id, Time now, bool peek = false);
  bool contains(const BlockId& id) const;                       // committed, not condemned
  std::optional<std::string> key_of(const BlockId& id) const;

  // Refreshes recency of `id` and of up to length-1 ancestors; with `protect` they cannot be evicted for
  // Options.protection, first come first kept, within the budget. Returns how many were protected.
  uint32_t touch(const BlockId& id, uint32_t length, bool protect, Time now);

  // Gone at once, also for loads. Returns false if it was not here. A reservation of this id cannot commit any more.
  bool drop(const BlockId& id, DropReason reason);
  // All blocks of these namespaces (none named: all) as drop() does, condemned and half-written ones too. Returns how
  // many could be found. Walks the table: for when no log of removals says which.
  uint64_t drop_namespaces(std::span<const uint32_t> namespaces, DropReason reason);
  // Blocks of an older generation of this namespace are no longer found; sweep() frees them. O(1).
  void raise_generation(NamespaceId space, uint32_t generation);
  uint32_t generation(NamespaceId space) const;
  // Frees up to `blocks_max` wiped blocks (each a drop event, `wiped`). Returns true while there may be more.
  bool sweep(size_t blocks_max);

  // The owner hashes its own copy again: ok, corrupt (then dropped, with an event), or miss.
  Code recheck(const BlockId& id);

  // Events not yet taken, oldest first.
  std::vector<Event> take_events(size_t max);
  uint64_t last_event() const;           // sequence of the newest event
  bool events_lost();                    // true once after an overflow
  // Called whenever events become available after there were none; from any thread, must not call back.
  void on_events(std::function<void()> wake);

  // Walks the live table in chunks: blocks from `cursor` on (0 = start); sets `cursor`, 0 when done. Blocks added
  // during the walk may or may not be seen (their add event is).
  std::vector<BlockInfo> inventory(uint64_t& cursor, size_t max) const;

  DramUsage usage() const;               // MP_CHECKs used + free = capacity
  Duration victim_age(Time now) const;   // time since the next victim was last used; placement's currency. 0 with free pages: no victim soon → Duration::max()
  const memory::Arena& arena() const;
  bool fault_next();                     // background faulting; see Arena

 private:
  DramTier();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millpond::tier
