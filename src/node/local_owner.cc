#include "node/local_owner.h"

#include <algorithm>

#include "base/log.h"
#include "base/reached.h"
#include "node/shared.h"

namespace millpond::node {
namespace {

// The first `length` bytes of the pieces.
std::vector<MutableByteSpan> first_bytes(const memory::TargetPieces& pieces, uint64_t length) {
  std::vector<MutableByteSpan> cut;
  for (auto piece : pieces) {
    if (length == 0) break;
    cut.push_back(piece.first(std::min<uint64_t>(piece.size(), length)));
    length -= cut.back().size();
  }
  return cut;
}

class LocalOwner : public transfer::Owner {
 public:
  explicit LocalOwner(std::weak_ptr<Shared> shared) : shared_(std::move(shared)) {}

  void read(std::vector<transfer::ReadItem> items, Time deadline, std::function<void(std::vector<transfer::ReadOutcome>)> done) override {
    std::vector<transfer::ReadOutcome> outcomes(items.size());
    auto shared = here();
    for (size_t i = 0; i < items.size(); ++i) {
      if (!shared) {
        outcomes[i].code = Code::unavailable;
      } else if (shared->runtime.now() >= deadline) {
        outcomes[i].code = Code::timed_out;
      } else {
        outcomes[i] = read_one(*shared, items[i]);
      }
    }
    done(std::move(outcomes));
  }

  void write(std::vector<transfer::WriteItem> items, Time deadline, bool visible, std::function<void(std::vector<transfer::WriteOutcome>)> done) override {
    std::vector<transfer::WriteOutcome> outcomes(items.size());
    auto shared = here();
    if (!shared) return done(std::move(outcomes));   // unavailable
    std::vector<uint64_t> events;
    std::vector<size_t> of;                          // events[k] belongs to outcomes[of[k]]
    for (size_t i = 0; i < items.size(); ++i) {
      if (shared->runtime.now() >= deadline) {
        outcomes[i].code = Code::timed_out;
        continue;
      }
      auto event = write_one(*shared, items[i]);
      outcomes[i].code = event ? Code::ok : event.error().code();
      outcomes[i].namespace_generation = shared->tier->generation(NamespaceId(items[i].key.id.namespace_id));
      if (event) events.push_back(*event), of.push_back(i);
    }
    if (!visible || events.empty()) return done(std::move(outcomes));
    shared->wait_visible(std::move(events), deadline, [outcomes = std::move(outcomes), of = std::move(of), done = std::move(done)](std::vector<Visibility> seen) mutable {
      for (size_t k = 0; k < of.size(); ++k) outcomes[of[k]].code = Shared::code_of(seen[k]);
      done(std::move(outcomes));
    });
  }

  void recheck(std::vector<BlockId> ids, Time deadline, std::function<void(std::vector<Code>)> done) override {
    std::vector<Code> codes;
    auto shared = here();
    for (auto& id : ids) {
      codes.push_back(!shared ? Code::unavailable : shared->runtime.now() >= deadline ? Code::timed_out : shared->recheck(id));
    }
    done(std::move(codes));
  }

  std::vector<uint64_t> lengths_here(const std::vector<BlockId>& ids) override {
    std::vector<uint64_t> lengths(ids.size(), 0);
    auto shared = here();
    if (!shared) return lengths;
    Time now = shared->runtime.now();
    for (size_t i = 0; i < ids.size(); ++i) {
      if (!shared->tier->contains(ids[i])) continue;
      if (auto view = shared->tier->find(ids[i], now, /*peek=*/true)) lengths[i] = view->length;
    }
    return lengths;
  }

  const char* transport() const override { return "local"; }

 private:
  std::shared_ptr<Shared> here() const {
    auto shared = shared_.lock();
    return shared && !shared->closed ? shared : nullptr;
  }

  static transfer::ReadOutcome read_one(Shared& shared, const transfer::ReadItem& item) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      auto view = shared.tier->find(item.key.id, shared.runtime.now());
      if (!view) {
        shared.counters.read_misses.add();
        return {Code::miss, 0};
      }
      if (total_bytes(item.target) < view->length) return {Code::invalid, view->length};
      // The memory may be reused while it is copied: what counts is what now stands in the target.
      auto sums = copy_and_sum_target(view->pieces, first_bytes(item.target, view->length));
      if (sums == view->sums && checksum_root(sums, view->length, item.key.seed) == view->root) {
        shared.counters.read_blocks_local.add();
        shared.counters.read_bytes_local.add(view->length);
        return {Code::ok, view->length};
      }
      MP_REACHED("node: local read did not verify");
    }
    shared.counters.corrupt_reads.add();
    Code found = shared.recheck(item.key.id);
    log::warn("node {}: block {} did not verify twice in a local read; its copy {}", shared.name, text(item.key.id),
              found == Code::ok ? "is good under its own sums (another key?)" : found == Code::corrupt ? "was bad and is dropped" : "is gone");
    return {Code::corrupt, 0};
  }

  static Result<uint64_t> write_one(Shared& shared, const transfer::WriteItem& item) {
    uint64_t length = total_bytes(item.source);
    auto room = shared.reserve({.id = item.key.id, .parent = item.parent, .key = item.key_text, .length = length, .namespace_generation = item.namespace_generation});
    if (!room) {
      if (room.error().code() == Code::no_space) shared.counters.store_no_space.add();
      if (room.error().code() == Code::stale) shared.counters.store_stale.add();
      return error(room.error());
    }
    auto sums = copy_and_sum(item.source, room->pieces());
    uint64_t root = checksum_root(sums, length, item.key.seed);
    auto event = shared.tier->commit(std::move(*room), sums, root, shared.runtime.now());
    if (event) shared.counters.store_bytes_local.add(length);
    return event;
  }

  const std::weak_ptr<Shared> shared_;
};

}  // namespace

std::shared_ptr<transfer::Owner> make_local_owner(std::weak_ptr<Shared> shared) { return std::make_shared<LocalOwner>(std::move(shared)); }

}  // namespace millpond::node
