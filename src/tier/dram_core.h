// The inside of DramTier: all state behind one mutex. Shared by the tier and its reservations, so that a reservation
// may outlive the tier.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/mutex.h"
#include "tier/arena_layout.h"
#include "tier/block_table.h"
#include "tier/dram_tier.h"
#include "tier/event_log.h"
#include "tier/protection.h"
#include "tier/space.h"

namespace millpond::tier {

struct DramMetrics {
  explicit DramMetrics(Metrics& metrics);
  Counter& drops(DropReason reason) { return *drops_[size_t(reason)]; }
  Counter& hits;
  Counter& misses;
  Counter& condemned_hits;
  Counter& stored_blocks;
  Counter& stored_bytes;
  Counter& evicted_blocks;
  Counter& evicted_bytes;
  Counter& no_space_protected;
  Counter& no_space_reserved;
  Counter& no_space_parent;
  Counter& events_lost;
  Counter& unprotected;
  Counter& recheck_ok;
  Counter& recheck_corrupt;
  Counter& recheck_miss;

 private:
  std::vector<Counter*> drops_;
};

class DramCore {
 public:
  DramCore(DramTier::Options options, std::unique_ptr<memory::Arena> arena, ArenaLayout layout, std::unique_ptr<EvictionPolicy> policy, Metrics& metrics);

  struct Reserved {
    SlotIndex slot;
    uint64_t generation;
    std::vector<uint32_t> pages;
    uint32_t offset;
  };
  Result<Reserved> reserve(const BlockSpec& spec, Time now);
  Result<uint64_t> commit(SlotIndex slot, uint64_t generation, ByteSpan header, uint64_t root, Time now);
  void abort(SlotIndex slot, uint64_t generation);

  std::optional<View> find(const BlockId& id, Time now, bool peek);
  bool contains(const BlockId& id) const;
  std::optional<std::string> key_of(const BlockId& id) const;
  uint32_t touch(const BlockId& id, uint32_t length, bool protect, Time now);
  bool drop(const BlockId& id, DropReason reason);
  uint64_t drop_namespaces(std::span<const uint32_t> namespaces, DropReason reason);
  void raise_generation(NamespaceId space, uint32_t generation);
  uint32_t generation(NamespaceId space) const;
  bool sweep(size_t blocks_max);
  Code recheck(const BlockId& id);
  std::vector<Event> take_events(size_t max);
  uint64_t last_event() const;
  bool events_lost();
  void on_events(std::function<void()> wake);
  std::vector<BlockInfo> inventory(uint64_t& cursor, size_t max) const;
  DramUsage usage() const;
  size_t condemned_queued() const;       // entries of the queue, for tests
  Duration victim_age(Time now) const;

  memory::Arena& arena() const { return *arena_; }
  template <typename Span>
  std::vector<Span> pieces(std::span<const uint32_t> pages, uint32_t offset, uint64_t length) const;

 private:
  struct Condemned {
    SlotIndex slot;
    uint64_t generation;                 // another one now: released by other means meanwhile
  };
  class Signal;   // wakes the reader of events once the lock is gone
  bool wiped(const Block& block) const REQUIRES_LOCK(mutex_);
  SlotIndex find_live(const BlockId& id) const REQUIRES_LOCK(mutex_);   // readable and not wiped
  bool drop_locked(const BlockId& id, DropReason reason) REQUIRES_LOCK(mutex_);
  void add_event(EventKind kind, DropReason reason, const Block& block) REQUIRES_LOCK(mutex_);
  void release(SlotIndex slot) REQUIRES_LOCK(mutex_);                   // whatever its state: memory and record are free
  void drop_committed(SlotIndex slot, DropReason reason) REQUIRES_LOCK(mutex_);
  bool is_victim(const BlockId& id, Time now) REQUIRES_LOCK(mutex_);
  bool make_room(const BlockSpec& spec, uint32_t header_slots, Time now, Place& place) REQUIRES_LOCK(mutex_);
  bool evict_one(Time now) REQUIRES_LOCK(mutex_);
  bool release_condemned() REQUIRES_LOCK(mutex_);
  bool still_condemned(const Condemned& entry) const REQUIRES_LOCK(mutex_);
  uint64_t next_generation() REQUIRES_LOCK(mutex_);

  const DramTier::Options options_;
  const std::unique_ptr<memory::Arena> arena_;
  const uint64_t condemned_target_;      // bytes that are free or condemned once the arena is full
  DramMetrics metrics_;

  mutable Mutex mutex_;
  ArenaLayout layout_ GUARDED_BY(mutex_);
  Space space_ GUARDED_BY(mutex_);
  BlockTable table_ GUARDED_BY(mutex_);
  Protection protection_ GUARDED_BY(mutex_);
  EventLog events_ GUARDED_BY(mutex_);
  const std::unique_ptr<EvictionPolicy> policy_;   // its state: under mutex_
  std::deque<Condemned> condemned_ GUARDED_BY(mutex_);   // oldest at the front; at most about twice as many as are condemned
  boost::unordered_flat_map<uint32_t, uint32_t> generations_ GUARDED_BY(mutex_);
  uint64_t last_generation_ GUARDED_BY(mutex_);
  uint64_t live_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t condemned_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t condemned_blocks_ GUARDED_BY(mutex_) = 0;
  uint64_t reserved_bytes_ GUARDED_BY(mutex_) = 0;
  uint64_t condemned_footprint_ GUARDED_BY(mutex_) = 0;
  uint64_t reserved_footprint_ GUARDED_BY(mutex_) = 0;
  uint64_t blocks_ GUARDED_BY(mutex_) = 0;
  size_t sweep_at_ GUARDED_BY(mutex_) = 0;
  bool sweep_due_ GUARDED_BY(mutex_) = false;

  std::atomic<bool> wake_due_{false};
  Mutex wake_mutex_;
  std::function<void()> wake_ GUARDED_BY(wake_mutex_);
};

// Pages that lie one after the other make one piece.
template <typename Span>
std::vector<Span> DramCore::pieces(std::span<const uint32_t> pages, uint32_t offset, uint64_t length) const {
  std::vector<Span> result;
  uint64_t page_size = arena_->page_size().count;
  for (size_t i = 0; i < pages.size();) {
    size_t end = i + 1;
    while (end < pages.size() && pages[end] == pages[end - 1] + 1) ++end;
    uint64_t bytes = std::min(length, (end - i) * page_size - offset);
    result.push_back(Span(arena_->page(PageIndex(pages[i])) + offset, bytes));
    length -= bytes;
    offset = 0;
    i = end;
  }
  return result;
}

}  // namespace millpond::tier
