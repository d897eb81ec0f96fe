#include "node/shared.h"

#include <algorithm>

#include "node/master_link.h"
#include "node/service.h"

namespace millpond::node {

Shared::Shared(Options o, rpc::Runtime& r, Metrics& m, std::unique_ptr<tier::DramTier> t)
    : options(std::move(o)), runtime(r), counters(m), tier(std::move(t)), generations(*tier), started(r.now()) {}
Shared::~Shared() = default;

Result<tier::Reservation> Shared::reserve(const tier::BlockSpec& spec) {
  NamespaceId space(spec.id.namespace_id);
  uint32_t ours = tier->generation(space);
  if (spec.namespace_generation < ours) {
    return error(Code::stale, "namespace {:08x} is in generation {}, the block of {}: hash again", space.value, ours, spec.namespace_generation);
  }
  if (spec.namespace_generation > ours) generations.raise(space, spec.namespace_generation);   // the writer has heard of a wipe before us
  return tier->reserve(spec, runtime.now());
}

void Shared::wait_visible(std::vector<uint64_t> events, Time until, Advertiser::Done done) {
  runtime.post([weak = weak_from_this(), events = std::move(events), until, done = std::move(done)]() mutable {
    auto shared = weak.lock();
    if (!shared || shared->closed) return done(std::vector<Visibility>(events.size(), Visibility::pending));
    shared->link->wait(std::move(events), until, std::move(done));
  });
}

Time Shared::answer_by(Time deadline) const {
  Duration left = std::max(Duration(0), deadline - runtime.now());
  return deadline - std::min<Duration>(std::chrono::milliseconds(20), left / 8);
}

Code Shared::recheck(const BlockId& id) {
  Code code = tier->recheck(id);
  if (code == Code::corrupt) counters.rechecks_corrupt.add();
  if (code == Code::ok) counters.rechecks_good.add();
  return code;
}

NodeState Shared::state() const {
  uint64_t last = tier->last_event();
  uint64_t told = answered;
  return {.joined = joined, .inventory_complete = inventory_complete, .master_away = master_away, .removal_last = removal_last,
          .unadvertised = last > told ? last - told : 0, .dram = tier->usage()};
}

namespace {
std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\u{:04x}", int(c));
    } else {
      out += c;
    }
  }
  return out + '"';
}
}  // namespace

std::string Shared::state_json() const {
  NodeState now = state();
  auto& identity = runtime.identity();
  return fmt::format(
      R"({{"name": {}, "node_id": "{:016x}", "epoch": {}, "address": {}, "advertised": {}, "local_socket": {}, "master": {}, )"
      R"("joined": {}, "inventory_complete": {}, "master_away": {}, "term": {}, "removal_last": {}, "unadvertised": {}, )"
      R"("dram": {{"capacity_bytes": {}, "live_bytes": {}, "condemned_bytes": {}, "reserved_bytes": {}, "free_bytes": {}, "overhead_bytes": {}, "protected_bytes": {}, "blocks": {}, "hugepages": {}, "faulted_bytes": {}}}, )"
      R"("uptime_seconds": {:.1f}}})",
      quoted(name), identity.node_id.value, identity.node_epoch.value, quoted(address), quoted(advertised), quoted(socket_path), quoted(options.master), now.joined,
      now.inventory_complete, now.master_away, term.load(), now.removal_last, now.unadvertised, now.dram.capacity.count, now.dram.live.count, now.dram.condemned.count,
      now.dram.reserved.count, now.dram.free.count, now.dram.overhead.count, now.dram.protected_bytes.count, now.dram.blocks, tier->arena().hugepages(),
      uint64_t(tier->arena().pages_faulted()) * tier->arena().page_size().count, seconds(runtime.now() - started));
}

}  // namespace millpond::node
