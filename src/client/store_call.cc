#include "client/store_call.h"

#include <algorithm>
#include <unordered_map>

#include "base/reached.h"
#include "wire/limits.h"

namespace millpond::client {
namespace {
constexpr size_t kNodesTriedMax = 3;     // a store that three nodes did not take is not worth a fourth
}

StoreCall::StoreCall(std::shared_ptr<Core> core, std::vector<StoreItem> items, Time deadline, Done done)
    : core_(std::move(core)), started_(core_->runtime.now()), deadline_(deadline), items_(std::move(items)),
      outcomes_(items_.size()), done_(std::move(done)) {}

void StoreCall::start() {
  std::vector<uint32_t> good;
  std::unordered_map<std::string_view, uint32_t> first;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    auto& item = items_[i];
    uint64_t length = total_bytes(item.pieces);
    if (!check_key(item.key).ok() || length == 0 || length > wire::kBlockBytesMax) {
      outcomes_[i].code = Code::invalid;
      continue;
    }
    auto [found, is_new] = first.emplace(item.key, i);
    if (is_new) good.push_back(i);
    else twins_.emplace_back(i, found->second);
  }
  if (good.empty()) return finish();
  bool local = core_->local && core_->options.transports.local;
  if (core_->view_version() != 0 || local || core_->master_away()) return place(std::move(good));
  learn_view(std::move(good));
}

void StoreCall::learn_view(std::vector<uint32_t> blocks) {
  view_asked_ = true;
  core_->open(std::min(deadline_, core_->runtime.now() + std::max(core_->options.lookup_deadline, (deadline_ - started_) / 2)),
              [self = shared_from_this(), blocks = std::move(blocks)](Status) { self->place(blocks); });
}

BlockId StoreCall::parent_of(uint32_t item) const {
  auto& key = items_[item].parent;
  return check_key(key).ok() ? hash_key(core_->space(), key).id : BlockId{};
}

// One call at a time is in flight: the blocks that a node did not take travel on together.
void StoreCall::place(std::vector<uint32_t> blocks) {
  NodeId node = tried_.size() < kNodesTriedMax ? core_->place(tried_) : NodeId();
  if (node.value == 0 && tried_.empty() && !view_asked_ && !core_->master_away()) {
    MP_REACHED("client: a view without a node to store to");   // a writer that never looks up hears of new nodes here
    return learn_view(std::move(blocks));
  }
  if (node.value == 0) {
    for (auto i : blocks) outcomes_[i].code = was_full_ ? Code::no_space : Code::unavailable;
    return finish();
  }
  if (!tried_.empty()) {
    MP_REACHED("client: next node");
    core_->counters.next_node.add();
  }
  tried_.push_back(node);
  send(node, std::move(blocks));
}

void StoreCall::send(NodeId node, std::vector<uint32_t> blocks) {
  auto owner = core_->owner(node);
  if (!owner) return place(std::move(blocks));
  auto space = core_->space();
  std::vector<transfer::WriteItem> items;
  for (auto i : blocks) {
    auto& item = items_[i];
    items.push_back({hash_key(space, item.key), parent_of(i), item.key,
                     item.pieces, space.generation});
  }
  Duration given = deadline_ - core_->runtime.now();
  owner->write(std::move(items), deadline_, true,
               [self = shared_from_this(), node, blocks = std::move(blocks), given](std::vector<transfer::WriteOutcome> outcomes) {
    self->answered(node, blocks, given, std::move(outcomes));
  });
}

void StoreCall::answered(NodeId node, std::vector<uint32_t> blocks, Duration given, std::vector<transfer::WriteOutcome> outcomes) {
  std::vector<uint32_t> stale, move_on;
  std::vector<BlockId> failures;
  Code failure = Code::ok;
  auto name = core_->name_of(node);
  bool full_before = was_full_;
  auto space = core_->space();
  for (size_t k = 0; k < blocks.size() && k < outcomes.size(); ++k) {
    uint32_t i = blocks[k];
    auto [code, generation] = outcomes[k];
    switch (code) {
      case Code::stale:
        core_->learn_generation(generation);
        stale.push_back(i);
        break;
      case Code::no_space:
      case Code::overloaded:
        was_full_ = true;
        outcomes_[i].code = Code::no_space;
        if (!full_before) move_on.push_back(i);   // one more node, not all of them
        break;
      case Code::unavailable:
      case Code::corrupt:                // on the way there, twice
        outcomes_[i].code = code;
        move_on.push_back(i);
        break;
      case Code::ok:
      case Code::exists:
        outcomes_[i] = {code, name};
        break;
      default:
        outcomes_[i].code = code;
    }
    if (code == Code::unavailable || code == Code::timed_out || code == Code::corrupt)
      failure = code, failures.push_back(hash_key(space, items_[i].key).id);
  }
  if (!failures.empty()) core_->failed(node, failure, given, std::move(failures));
  if (!stale.empty() && !hashed_again_) {
    MP_REACHED("client: store hashed again");
    core_->counters.stale.add();
    hashed_again_ = true;
    // Those that move on hash anew as well; they go first to the node that is known to answer.
    stale.insert(stale.end(), move_on.begin(), move_on.end());
    return send(node, std::move(stale));
  }
  for (auto i : stale) outcomes_[i].code = Code::stale;
  if (!move_on.empty()) return place(std::move(move_on));
  finish();
}

void StoreCall::finish() {
  for (auto [later, earlier] : twins_) {
    outcomes_[later] = outcomes_[earlier];
    if (outcomes_[later].code == Code::ok) outcomes_[later].code = Code::exists;   // the first bytes stay
  }
  for (size_t i = 0; i < outcomes_.size(); ++i) {
    core_->counters.count_store(outcomes_[i].code);
    if (outcomes_[i].code == Code::ok) core_->counters.bytes_stored.add(total_bytes(items_[i].pieces));
  }
  core_->counters.store_seconds.add(core_->runtime.now() - started_);
  core_->runtime.post([self = shared_from_this()] { self->done_(std::move(self->outcomes_)); });
}

}  // namespace millpond::client
