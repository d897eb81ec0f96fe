#include "tier/dram_core.h"

#include <algorithm>

#include "base/check.h"
#include "base/reached.h"
#include "wire/limits.h"

namespace millpond::tier {
namespace {

// One touch walks at most this many ancestors: the ids of the largest lookup.
constexpr uint32_t kRunMax = wire::kIdsPerMessageMax;

}  // namespace

class DramCore::Signal {
 public:
  explicit Signal(DramCore& core) : core_(core) {}
  ~Signal() {
    if (!core_.wake_due_.exchange(false)) return;
    Lock lock(core_.wake_mutex_);
    if (core_.wake_) core_.wake_();
  }

 private:
  DramCore& core_;
};

DramCore::DramCore(DramTier::Options options, std::unique_ptr<memory::Arena> arena, ArenaLayout layout, std::unique_ptr<EvictionPolicy> policy, Metrics& metrics)
    : options_(std::move(options)), arena_(std::move(arena)),
      condemned_target_(uint64_t(options_.condemned_fraction * double(arena_->bytes().size()))), metrics_(metrics),
      layout_(layout), space_(*arena_, layout_),
      table_(std::min<uint64_t>(arena_->bytes().size() / KiB(256).count, 1 << 22)),   // no rehash while it fills with usual blocks
      protection_(table_, uint64_t(options_.protected_fraction * double(arena_->bytes().size()))),
      events_(options_.events_max), policy_(std::move(policy)), last_generation_(uint64_t(options_.boot_counter) << 32) {}

bool DramCore::wiped(const Block& block) const {
  if (generations_.empty()) return false;
  auto found = generations_.find(block.id.namespace_id);
  return found != generations_.end() && block.namespace_generation < found->second;
}

SlotIndex DramCore::find_live(const BlockId& id) const {
  SlotIndex slot = table_.find(id);
  return slot == kNoSlot || wiped(table_.at(slot)) ? kNoSlot : slot;
}

void DramCore::add_event(EventKind kind, DropReason reason, const Block& block) {
  uint64_t lost_before = events_.lost_count();
  events_.add(kind, reason, block.id, block.root, block.length);
  metrics_.events_lost.add(events_.lost_count() - lost_before);
  if (events_.wants_wake()) wake_due_.store(true);
}

uint64_t DramCore::next_generation() {
  // After 2^32 slots the count carries into the boot counter: still larger than all before, and the next boot starts above.
  if (uint32_t(++last_generation_) == 0) {
    MP_REACHED("tier: slot generation carries");
    layout_.set_boot_counter(last_generation_ >> 32);
  }
  return last_generation_;
}

void DramCore::release(SlotIndex slot) {
  Block& block = table_.at(slot);
  uint64_t footprint = space_.footprint(block.length);
  switch (block.state) {
    case BlockState::committed:
      policy_->gone(slot);
      protection_.release(slot);
      live_bytes_ -= block.length;
      --blocks_;
      break;
    case BlockState::condemned:
      condemned_bytes_ -= block.length;
      condemned_footprint_ -= footprint;
      --condemned_blocks_;
      break;
    case BlockState::reserved:
    case BlockState::doomed:
      reserved_bytes_ -= block.length;
      reserved_footprint_ -= footprint;
      break;
    case BlockState::free:
      MP_CHECK(false, "slot {} is free already", slot.value);
  }
  if (block.state == BlockState::committed || block.state == BlockState::condemned) layout_.clear_header(block.place.header_slots());
  space_.give(block.place, block.length);
  table_.erase_readable(slot);
  table_.erase_writer(slot);
  table_.remove(slot);
}

void DramCore::drop_committed(SlotIndex slot, DropReason reason) {
  add_event(EventKind::drop, reason, table_.at(slot));
  metrics_.drops(reason).add();
  release(slot);
}

bool DramCore::evict_one(Time now) {
  auto victim = policy_->victim(now);
  if (!victim) return false;
  Block& block = table_.at(*victim);
  MP_CHECK(block.state == BlockState::committed, "victim {} is not committed", victim->value);
  if (wiped(block)) {
    drop_committed(*victim, DropReason::wiped);   // nobody can find it: its memory is free at once
    return true;
  }
  policy_->gone(*victim);
  uint64_t footprint = space_.footprint(block.length);
  protection_.release(*victim);
  add_event(EventKind::evict, DropReason::none, block);
  metrics_.evicted_blocks.add();
  metrics_.evicted_bytes.add(block.length);
  block.state = BlockState::condemned;
  live_bytes_ -= block.length;
  --blocks_;
  condemned_bytes_ += block.length;
  condemned_footprint_ += footprint;
  ++condemned_blocks_;
  condemned_.push_back({*victim, block.generation});
  // What is stored again or removed leaves its entry behind; where memory never runs short nothing else takes it out.
  if (condemned_.size() > 2 * condemned_blocks_ + 64) {
    MP_REACHED("tier: condemned queue tidied");
    std::erase_if(condemned_, [this](const Condemned& entry) REQUIRES_LOCK(mutex_) { return !still_condemned(entry); });
  }
  return true;
}

bool DramCore::still_condemned(const Condemned& entry) const {
  const Block& block = table_.at(entry.slot);
  return block.state == BlockState::condemned && block.generation == entry.generation;
}

bool DramCore::release_condemned() {
  while (!condemned_.empty()) {
    Condemned oldest = condemned_.front();
    condemned_.pop_front();
    if (!still_condemned(oldest)) continue;
    release(oldest.slot);
    return true;
  }
  return false;
}

// A child in its parent's place would be out of every lookup's reach: a prompt longer than the arena keeps its head.
bool DramCore::is_victim(const BlockId& id, Time now) {
  if (id.none()) return false;
  auto victim = policy_->victim(now);
  return victim && table_.at(*victim).id == id;
}

bool DramCore::make_room(const BlockSpec& spec, uint32_t header_slots, Time now, Place& place) {
  uint64_t length = spec.length;
  // Not worth evicting anybody for what cannot be had.
  if (reserved_footprint_ + protection_.bytes() + space_.footprint(length) > space_.usable_bytes()) return false;
  while (!space_.take(length, header_slots, place)) {
    if (!release_condemned() && (is_victim(spec.parent, now) || !evict_one(now))) return false;
  }
  // The next victims go now, so that loads still find them for as long as it takes to store this much. To the nearest
  // victim: 40 MiB blocks in an arena of 1 GiB would otherwise leave up to 4 % more unused than is asked for.
  while (auto victim = policy_->victim(now)) {
    if (table_.at(*victim).id == spec.parent) break;
    if (space_.free_bytes() + condemned_footprint_ + space_.footprint(table_.at(*victim).length) / 2 > condemned_target_) break;
    evict_one(now);
  }
  return true;
}

Result<DramCore::Reserved> DramCore::reserve(const BlockSpec& spec, Time now) {
  MP_OK(check_key(spec.key));
  if (spec.id.none()) return error(Code::invalid, "block without an id");
  if (spec.length == 0) return error(Code::invalid, "block {} is empty; blocks have at least one byte", text(spec.id));
  if (spec.length > wire::kBlockBytesMax) return error(Code::invalid, "block {} of {}: at most {}", text(spec.id), text(Bytes{spec.length}), text(Bytes{wire::kBlockBytesMax}));

  Signal signal(*this);
  Lock lock(mutex_);
  uint64_t pages = (spec.length + arena_->page_size().count - 1) / arena_->page_size().count;
  uint32_t header_slots = header_slots_for(wire::block_header_bytes(chunk_count(spec.length), pages, spec.key.size()));
  if (!space_.fits(spec.length, header_slots)) {
    return error(Code::invalid, "block {} of {} is larger than the memory for blocks, {}", text(spec.id), text(Bytes{spec.length}), text(Bytes{space_.usable_bytes()}));
  }
  if (auto found = generations_.find(spec.id.namespace_id); found != generations_.end() && spec.namespace_generation < found->second) {
    return error(Code::stale, "namespace {:#x} is in generation {}, not {}: hash the key again", spec.id.namespace_id, found->second, spec.namespace_generation);
  }
  if (SlotIndex here = find_live(spec.id); here != kNoSlot && table_.at(here).state == BlockState::committed) {
    policy_->used(here, now);   // who computed it again will want it again
    return error(Code::exists, "block {} is stored", text(spec.id));
  }
  if (table_.writer_of(spec.id) != kNoSlot) return error(Code::exists, "block {} is being written by another", text(spec.id));

  protection_.expire(now);
  Place place;
  if (!make_room(spec, header_slots, now, place)) {
    bool by_parent = is_victim(spec.parent, now), by_protection = !by_parent && protection_.bytes() > 0;
    (by_parent ? metrics_.no_space_parent : by_protection ? metrics_.no_space_protected : metrics_.no_space_reserved).add();
    MP_REACHED("tier: no space");
    return error(Code::no_space, "no room for {}: of {}, {} are protected after a lookup and {} are being written{}", text(Bytes{spec.length}),
                 text(Bytes{space_.usable_bytes()}), text(Bytes{protection_.bytes()}), text(Bytes{reserved_footprint_}),
                 by_parent ? "; the next to leave would be its own parent" : "");
  }
  SlotIndex slot = table_.add();
  Block& block = table_.at(slot);
  block.id = spec.id;
  block.parent = spec.parent;
  block.length = spec.length;
  block.generation = next_generation();
  block.namespace_generation = spec.namespace_generation;
  block.key_bytes = uint16_t(spec.key.size());
  block.place = std::move(place);
  block.state = BlockState::reserved;
  table_.set_writer(slot);
  reserved_bytes_ += spec.length;
  reserved_footprint_ += space_.footprint(spec.length);
  auto taken = block.place.pages();
  return Reserved{slot, block.generation, {taken.begin(), taken.end()}, block.place.offset};
}

Result<uint64_t> DramCore::commit(SlotIndex slot, uint64_t generation, ByteSpan header, uint64_t root, Time now) {
  Signal signal(*this);
  Lock lock(mutex_);
  Block& block = table_.at(slot);
  MP_CHECK(block.generation == generation, "slot {}: generation {}, reserved as {}", slot.value, block.generation, generation);
  if (block.state == BlockState::doomed) {
    MP_REACHED("tier: removed while it was written");
    return error(Code::stale, "block {} was removed while it was being written", text(block.id));
  }
  MP_CHECK(block.state == BlockState::reserved, "slot {} is not reserved", slot.value);
  if (wiped(block)) {
    MP_REACHED("tier: wiped while it was written");
    return error(Code::stale, "namespace {:#x} was wiped while block {} was being written", block.id.namespace_id, text(block.id));
  }
  if (SlotIndex former = table_.find(block.id); former != kNoSlot) {
    if (table_.at(former).state == BlockState::condemned) {
      release(former);   // its evict event is in the log: the add that follows is the whole truth
    } else if (wiped(table_.at(former))) {
      drop_committed(former, DropReason::wiped);
    } else {
      return error(Code::exists, "block {} was stored by another meanwhile", text(block.id));
    }
  }
  layout_.write_header(block.place.header_slots(), header);
  table_.erase_writer(slot);
  table_.set_readable(slot);
  block.root = root;
  block.state = BlockState::committed;
  reserved_bytes_ -= block.length;
  reserved_footprint_ -= space_.footprint(block.length);
  live_bytes_ += block.length;
  ++blocks_;
  SlotIndex parent = block.parent.none() ? kNoSlot : table_.find(block.parent);
  if (parent != kNoSlot && (parent == slot || table_.at(parent).state != BlockState::committed)) parent = kNoSlot;
  policy_->added(slot, parent, block.length, now);
  metrics_.stored_blocks.add();
  metrics_.stored_bytes.add(block.length);
  add_event(EventKind::add, DropReason::none, block);
  return events_.last();
}

void DramCore::abort(SlotIndex slot, uint64_t generation) {
  Lock lock(mutex_);
  MP_CHECK(table_.at(slot).generation == generation, "slot {}: generation {}, reserved as {}", slot.value, table_.at(slot).generation, generation);
  release(slot);
}

std::optional<View> DramCore::find(const BlockId& id, Time now, bool peek) {
  Lock lock(mutex_);
  SlotIndex slot = find_live(id);
  if (slot == kNoSlot) {
    if (!peek) metrics_.misses.add();
    return std::nullopt;
  }
  const Block& block = table_.at(slot);
  if (!peek) {
    metrics_.hits.add();
    if (block.state == BlockState::committed) policy_->used(slot, now);
    else metrics_.condemned_hits.add();
  }
  View view{.id = id, .length = block.length, .root = block.root, .generation = Generation(block.generation)};
  view.sums.resize(chunk_count(block.length));
  layout_.read_header(block.place.header_slots(), wire::kBlockHeaderFixedBytes, std::as_writable_bytes(std::span(view.sums)));
  auto pages = block.place.pages();
  view.places.offset = block.place.offset;
  view.places.pages.reserve(pages.size());
  for (uint32_t page : pages) view.places.pages.push_back(PageIndex(page));
  view.pieces = pieces<ByteSpan>(pages, block.place.offset, block.length);
  return view;
}

bool DramCore::contains(const BlockId& id) const {
  Lock lock(mutex_);
  SlotIndex slot = find_live(id);
  return slot != kNoSlot && table_.at(slot).state == BlockState::committed;
}

std::optional<std::string> DramCore::key_of(const BlockId& id) const {
  Lock lock(mutex_);
  SlotIndex slot = find_live(id);
  if (slot == kNoSlot) return std::nullopt;
  const Block& block = table_.at(slot);
  std::string key(block.key_bytes, '\0');
  layout_.read_header(block.place.header_slots(), wire::block_header_key_offset(chunk_count(block.length), block.place.page_count),
                      std::as_writable_bytes(std::span(key)));
  return key;
}

uint32_t DramCore::touch(const BlockId& id, uint32_t length, bool protect, Time now) {
  Lock lock(mutex_);
  protection_.expire(now);
  auto committed = [&](const BlockId& at) REQUIRES_LOCK(mutex_) {
    SlotIndex slot = find_live(at);
    return slot != kNoSlot && table_.at(slot).state == BlockState::committed ? slot : kNoSlot;
  };
  SlotIndex slot = committed(id);
  if (slot == kNoSlot || length == 0) return 0;
  policy_->used(slot, now);   // its ancestors inherit the stamp when it leaves
  if (!protect) return 0;
  std::vector<SlotIndex> run{slot};
  for (uint32_t left = std::min(length, kRunMax) - 1; left > 0; --left) {
    const BlockId& parent = table_.at(run.back()).parent;
    if (parent.none() || (slot = committed(parent)) == kNoSlot) break;
    run.push_back(slot);
  }
  // From the first block on: a prefix without its tail is of use, a tail without its prefix is not.
  uint32_t count = 0;
  Time until = now + options_.protection;
  for (size_t i = run.size(); i-- > 0;) {
    if (!protection_.protect(run[i], space_.footprint(table_.at(run[i]).length), until)) {
      metrics_.unprotected.add(i + 1);
      break;
    }
    policy_->protect(run[i], until);
    ++count;
  }
  return count;
}

bool DramCore::drop(const BlockId& id, DropReason reason) {
  Signal signal(*this);
  Lock lock(mutex_);
  return drop_locked(id, reason);
}

uint64_t DramCore::drop_namespaces(std::span<const uint32_t> namespaces, DropReason reason) {
  constexpr size_t kSlotsAtOnce = 4096;   // then others have the lock: a table of millions takes a while
  uint64_t dropped = 0;
  for (size_t at = 0, end = 1; at < end;) {
    Signal signal(*this);
    Lock lock(mutex_);
    end = table_.slots();
    for (size_t stop = std::min(end, at + kSlotsAtOnce); at < stop; ++at) {
      const Block& block = table_.at(SlotIndex(uint32_t(at)));
      if (block.state == BlockState::free) continue;
      if (!namespaces.empty() && std::ranges::find(namespaces, block.id.namespace_id) == namespaces.end()) continue;
      dropped += drop_locked(BlockId(block.id), reason);
    }
  }
  return dropped;
}

bool DramCore::drop_locked(const BlockId& id, DropReason reason) {
  if (SlotIndex writer = table_.writer_of(id); writer != kNoSlot) {
    table_.at(writer).state = BlockState::doomed;   // its writer still copies: the memory is his until he ends
    table_.erase_writer(writer);
  }
  SlotIndex slot = table_.find(id);
  if (slot == kNoSlot) return false;
  bool was_wiped = wiped(table_.at(slot));
  if (table_.at(slot).state == BlockState::condemned) release(slot);   // its evict event is in the log
  else drop_committed(slot, was_wiped ? DropReason::wiped : reason);
  return !was_wiped;
}

void DramCore::raise_generation(NamespaceId space, uint32_t generation) {
  Lock lock(mutex_);
  uint32_t& known = generations_[space.value];
  if (generation <= known) return;
  known = generation;
  sweep_at_ = 0;
  sweep_due_ = true;
}

uint32_t DramCore::generation(NamespaceId space) const {
  Lock lock(mutex_);
  auto found = generations_.find(space.value);
  return found == generations_.end() ? 0 : found->second;
}

bool DramCore::sweep(size_t blocks_max) {
  constexpr size_t kLooksPerBlock = 16;   // looking costs a fraction of freeing; bounded too, the lock is held
  Signal signal(*this);
  Lock lock(mutex_);
  if (!sweep_due_) return false;
  size_t freed = 0;
  for (size_t looks = std::max<size_t>(blocks_max, 1) * kLooksPerBlock; looks > 0 && freed < blocks_max && sweep_at_ < table_.slots(); --looks, ++sweep_at_) {
    SlotIndex slot{uint32_t(sweep_at_)};
    const Block& block = table_.at(slot);
    bool readable = block.state == BlockState::committed || block.state == BlockState::condemned;
    if (!readable || !wiped(block)) continue;
    if (block.state == BlockState::condemned) release(slot);
    else drop_committed(slot, DropReason::wiped);
    ++freed;
  }
  sweep_due_ = sweep_at_ < table_.slots();
  return sweep_due_;
}

Code DramCore::recheck(const BlockId& id) {
  auto view = find(id, Time{}, true);
  if (!view) {
    metrics_.recheck_miss.add();
    return Code::miss;
  }
  bool good = checksum(view->pieces, 0).sums == view->sums;   // the seed is for the root alone; the seal below covers that
  Signal signal(*this);
  Lock lock(mutex_);
  SlotIndex slot = find_live(id);
  if (slot == kNoSlot || table_.at(slot).generation != view->generation.value) {
    MP_REACHED("tier: gone while it was rechecked");
    metrics_.recheck_miss.add();
    return Code::miss;
  }
  const Block& block = table_.at(slot);
  if (good) {
    ByteVector header(wire::block_header_bytes(chunk_count(block.length), block.place.page_count, block.key_bytes));
    layout_.read_header(block.place.header_slots(), 0, header);
    auto decoded = wire::decode_block_header(header);
    good = decoded && decoded->id == id && decoded->root == block.root && decoded->sums == view->sums;
  }
  if (good) {
    metrics_.recheck_ok.add();
    return Code::ok;
  }
  MP_REACHED("tier: corrupt copy dropped");
  metrics_.recheck_corrupt.add();
  if (block.state == BlockState::condemned) release(slot);
  else drop_committed(slot, DropReason::corrupt);
  return Code::corrupt;
}

std::vector<Event> DramCore::take_events(size_t max) {
  Lock lock(mutex_);
  return events_.take(max);
}

uint64_t DramCore::last_event() const {
  Lock lock(mutex_);
  return events_.last();
}

bool DramCore::events_lost() {
  Lock lock(mutex_);
  return events_.lost();
}

void DramCore::on_events(std::function<void()> wake) {
  {
    Lock lock(wake_mutex_);   // also waits for a wake that runs: after on_events({}) none does
    wake_ = std::move(wake);
  }
  Signal signal(*this);
  Lock lock(mutex_);
  if (!events_.empty()) wake_due_.store(true);
}

std::vector<BlockInfo> DramCore::inventory(uint64_t& cursor, size_t max) const {
  Lock lock(mutex_);
  std::vector<BlockInfo> infos;
  for (; cursor < table_.slots(); ++cursor) {
    if (infos.size() >= max) return infos;
    const Block& block = table_.at(SlotIndex(uint32_t(cursor)));
    if (block.state != BlockState::committed || wiped(block)) continue;
    infos.push_back({block.id, block.parent, block.length, block.root, block.namespace_generation});
  }
  cursor = 0;
  return infos;
}

DramUsage DramCore::usage() const {
  Lock lock(mutex_);
  DramUsage usage{.capacity = {space_.capacity()}, .live = {live_bytes_}, .condemned = {condemned_bytes_}, .reserved = {reserved_bytes_},
                  .free = {space_.free_bytes()}, .overhead = {space_.overhead()}, .protected_bytes = {protection_.bytes()}, .blocks = blocks_};
  uint64_t sum = live_bytes_ + condemned_bytes_ + reserved_bytes_ + usage.free.count + usage.overhead.count;
  MP_CHECK(sum == usage.capacity.count, "live {} + condemned {} + reserved {} + free {} + overhead {} != capacity {}", live_bytes_, condemned_bytes_,
           reserved_bytes_, usage.free.count, usage.overhead.count, usage.capacity.count);
  return usage;
}

size_t DramCore::condemned_queued() const {
  Lock lock(mutex_);
  return condemned_.size();
}

Duration DramCore::victim_age(Time now) const {
  Lock lock(mutex_);
  if (space_.free_bytes() > condemned_target_) return Duration::max();
  return policy_->victim_age(now);
}

}  // namespace millpond::tier
