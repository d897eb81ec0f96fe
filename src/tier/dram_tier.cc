#include "tier/dram_tier.h"

#include <utility>

#include "base/check.h"
#include "tier/dram_core.h"
#include "wire/block_header.h"

namespace millpond::tier {

struct Reservation::State {
  std::shared_ptr<DramCore> core;
  SlotIndex slot = kNoSlot;              // kNoSlot: committed
  Generation generation{};
  Places places;
  std::vector<MutableByteSpan> pieces;
  BlockId id;
  BlockId parent;
  uint64_t length = 0;
  uint32_t namespace_generation = 0;
  std::string key;

  ~State() {
    if (slot != kNoSlot) core->abort(slot, generation.value);
  }
};

Reservation::Reservation(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reservation::Reservation(Reservation&&) noexcept = default;
Reservation& Reservation::operator=(Reservation&&) noexcept = default;
Reservation::~Reservation() = default;
uint64_t Reservation::handle() const { return state_->slot.value; }
Generation Reservation::generation() const { return state_->generation; }
const Places& Reservation::places() const { return state_->places; }
const std::vector<MutableByteSpan>& Reservation::pieces() const { return state_->pieces; }
const BlockId& Reservation::id() const { return state_->id; }
uint64_t Reservation::length() const { return state_->length; }

struct DramTier::State {
  std::shared_ptr<DramCore> core;
};

DramTier::DramTier() : state_(std::make_unique<State>()) {}
DramTier::~DramTier() {
  state_->core->on_events({});
}

Result<std::unique_ptr<DramTier>> DramTier::open(Options options, std::unique_ptr<EvictionPolicy> policy, Metrics& metrics) {
  MP_CHECK(policy != nullptr, "a tier needs an eviction policy");
  auto in = [](double value, double max) { return value >= 0 && value <= max; };
  if (!in(options.condemned_fraction, 0.5)) return error(Code::invalid, "condemned_fraction {}: must be 0 … 0.5", options.condemned_fraction);
  if (!in(options.protected_fraction, 0.9)) return error(Code::invalid, "protected_fraction {}: must be 0 … 0.9", options.protected_fraction);
  if (options.protection < Duration(0)) return error(Code::invalid, "protection must not be negative");
  if (options.events_max == 0) return error(Code::invalid, "events_max 0: at least 1");
  MP_TRY(auto arena, memory::Arena::create({.capacity = options.capacity, .page_size = options.page_size, .hugepages = options.hugepages, .name = options.name}));
  MP_TRY(auto layout, ArenaLayout::format(*arena, options.boot_counter));
  std::unique_ptr<DramTier> tier(new DramTier());
  auto core = std::make_shared<DramCore>(std::move(options), std::move(arena), layout, std::move(policy), metrics);
  tier->state_->core = core;
  auto gauge = [&, weak = std::weak_ptr(core)](const char* what, const char* help, auto read) {
    metrics.gauge_function(fmt::format("millpond_tier_{}", what), help, [weak, read] {
      auto core = weak.lock();   // the registry may outlive the tier
      return core ? double(read(core->usage())) : 0.0;
    }, "tier=\"dram\"");
  };
  gauge("capacity_bytes", "Size of the arena.", [](const DramUsage& u) { return u.capacity.count; });
  gauge("live_bytes", "Payload of stored blocks.", [](const DramUsage& u) { return u.live.count; });
  gauge("condemned_bytes", "Payload of evicted blocks that can still be loaded.", [](const DramUsage& u) { return u.condemned.count; });
  gauge("reserved_bytes", "Payload of blocks that are being written.", [](const DramUsage& u) { return u.reserved.count; });
  gauge("free_bytes", "Free pages.", [](const DramUsage& u) { return u.free.count; });
  gauge("overhead_bytes", "Headers, page tails and free slots of shared pages.", [](const DramUsage& u) { return u.overhead.count; });
  gauge("protected_bytes", "Blocks kept from eviction after a lookup.", [](const DramUsage& u) { return u.protected_bytes.count; });
  gauge("blocks", "Stored blocks.", [](const DramUsage& u) { return u.blocks; });
  return tier;
}

Result<Reservation> DramTier::reserve(const BlockSpec& spec, Time now) {
  auto& core = state_->core;
  MP_TRY(auto reserved, core->reserve(spec, now));
  auto state = std::make_unique<Reservation::State>();
  state->core = core;
  state->slot = reserved.slot;
  state->generation = Generation(reserved.generation);
  state->pieces = core->pieces<MutableByteSpan>(reserved.pages, reserved.offset, spec.length);
  state->places.offset = reserved.offset;
  state->places.pages.reserve(reserved.pages.size());
  for (uint32_t page : reserved.pages) state->places.pages.push_back(PageIndex(page));
  state->id = spec.id;
  state->parent = spec.parent;
  state->length = spec.length;
  state->namespace_generation = spec.namespace_generation;
  state->key = spec.key;
  return Reservation(std::move(state));
}

Result<uint64_t> DramTier::commit(Reservation reservation, std::span<const uint64_t> sums, uint64_t root, Time now) {
  auto* of = reservation.state_.get();
  if (!of || of->core != state_->core) return error(Code::invalid, "not a reservation of this tier");
  if (sums.size() != chunk_count(of->length)) {
    return error(Code::invalid, "block {}: {} sums for {} bytes, {} are needed", text(of->id), sums.size(), of->length, chunk_count(of->length));
  }
  std::vector<uint32_t> pages;
  pages.reserve(of->places.pages.size());
  for (PageIndex page : of->places.pages) pages.push_back(page.value);
  wire::BlockHeaderView header{.id = of->id, .parent = of->parent, .namespace_generation = of->namespace_generation, .length = of->length, .root = root,
                               .generation = of->generation.value, .page_offset = of->places.offset, .sums = sums, .pages = pages, .key = of->key};
  ByteVector encoded(wire::block_header_bytes(sums.size(), pages.size(), of->key.size()));
  wire::encode_block_header(header, encoded);   // outside the lock: it hashes
  MP_TRY(uint64_t sequence, of->core->commit(of->slot, of->generation.value, encoded, root, now));
  of->slot = kNoSlot;
  return sequence;
}

std::optional<View> DramTier::find(const BlockId& id, Time now, bool peek) { return state_->core->find(id, now, peek); }
bool DramTier::contains(const BlockId& id) const { return state_->core->contains(id); }
std::optional<std::string> DramTier::key_of(const BlockId& id) const { return state_->core->key_of(id); }
uint32_t DramTier::touch(const BlockId& id, uint32_t length, bool protect, Time now) { return state_->core->touch(id, length, protect, now); }
bool DramTier::drop(const BlockId& id, DropReason reason) { return state_->core->drop(id, reason); }
uint64_t DramTier::drop_namespaces(std::span<const uint32_t> namespaces, DropReason reason) { return state_->core->drop_namespaces(namespaces, reason); }
void DramTier::raise_generation(NamespaceId space, uint32_t generation) { state_->core->raise_generation(space, generation); }
uint32_t DramTier::generation(NamespaceId space) const { return state_->core->generation(space); }
bool DramTier::sweep(size_t blocks_max) { return state_->core->sweep(blocks_max); }
Code DramTier::recheck(const BlockId& id) { return state_->core->recheck(id); }
std::vector<Event> DramTier::take_events(size_t max) { return state_->core->take_events(max); }
uint64_t DramTier::last_event() const { return state_->core->last_event(); }
bool DramTier::events_lost() { return state_->core->events_lost(); }
void DramTier::on_events(std::function<void()> wake) { state_->core->on_events(std::move(wake)); }
std::vector<BlockInfo> DramTier::inventory(uint64_t& cursor, size_t max) const { return state_->core->inventory(cursor, max); }
DramUsage DramTier::usage() const { return state_->core->usage(); }
Duration DramTier::victim_age(Time now) const { return state_->core->victim_age(now); }
const memory::Arena& DramTier::arena() const { return state_->core->arena(); }
bool DramTier::fault_next() { return state_->core->arena().fault_next(); }

}  // namespace millpond::tier
