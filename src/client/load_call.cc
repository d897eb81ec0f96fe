#include "client/load_call.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <unordered_map>

#include "base/reached.h"
#include "client/lookup_call.h"

namespace millpond::client {

LoadCall::LoadCall(std::shared_ptr<Core> core, std::vector<LoadItem> items, Time deadline, Done done)
    : core_(std::move(core)), started_(core_->runtime.now()), deadline_(deadline), items_(std::move(items)),
      blocks_(items_.size()), outcomes_(items_.size()), done_(std::move(done)) {}

bool LoadCall::check(uint32_t i) {
  blocks_[i].room = total_bytes(items_[i].pieces);
  if (check_key(items_[i].key).ok() && blocks_[i].room > 0) return true;
  outcomes_[i].code = Code::invalid;
  return false;
}

void LoadCall::start() {
  std::vector<uint32_t> good;
  std::vector<std::string> keys;
  for (uint32_t i = 0; i < items_.size(); ++i)
    if (check(i)) good.push_back(i), keys.push_back(items_[i].key);
  if (good.empty()) return finish();
  Duration left = deadline_ - started_;
  auto by = std::min(deadline_, started_ + std::max(core_->options.lookup_deadline, left / 2));
  auto located = [self = shared_from_this(), good = std::move(good)](Result<Plan> plan) {
    if (!plan) {
      for (auto i : good) self->outcomes_[i].code = plan.error().code() == Code::timed_out ? Code::timed_out : Code::unavailable;
      return self->finish();
    }
    for (size_t k = 0; k < good.size(); ++k) self->plan_block(good[k], *plan, k);
    self->dispatch(good);
  };
  std::make_shared<LookupCall>(core_, std::move(keys), true, by, std::move(located))->start();
}

void LoadCall::start(const Plan& plan) {
  std::unordered_map<std::string_view, size_t> position;
  for (size_t k = 0; k < plan.keys.size(); ++k) position.emplace(plan.keys[k], k);
  std::vector<uint32_t> good;
  for (uint32_t i = 0; i < items_.size(); ++i) {
    if (!check(i)) continue;
    good.push_back(i);
    if (auto found = position.find(items_[i].key); found != position.end()) plan_block(i, plan, found->second);
  }
  if (good.empty()) return finish();
  dispatch(std::move(good));
}

void LoadCall::plan_block(uint32_t i, const Plan& plan, size_t at) {
  if (at >= plan.lengths.size() || at >= plan.replicas.size() || plan.lengths[at] == 0) return;   // a miss
  if (plan.lengths[at] > blocks_[i].room) {
    outcomes_[i] = {Code::invalid, plan.lengths[at]};
    return;
  }
  // Nearest first; among equals the master's order, which is the same for a whole chain: few owners, large messages.
  std::vector<std::tuple<int, size_t, NodeId>> by_distance;
  for (auto& replica : plan.replicas[at]) by_distance.emplace_back(core_->distance(replica.node_id), by_distance.size(), replica.node_id);
  std::sort(by_distance.begin(), by_distance.end());
  for (auto& [distance, order, node] : by_distance) blocks_[i].replicas.push_back(node);
}

void LoadCall::dispatch(std::vector<uint32_t> positions) {
  auto space = core_->space();
  std::map<std::pair<NodeId, bool>, Group> groups;
  for (auto i : positions) {
    auto& block = blocks_[i];
    block.key = hash_key(space, items_[i].key);
    while (block.next < block.replicas.size()) {
      NodeId node = block.replicas[block.next++];
      bool last = block.next == block.replicas.size();
      auto& group = groups[{node, last}];
      if (!group.owner) group.owner = core_->owner(node);
      if (group.owner) {
        group.node = node, group.last_resort = last;
        group.blocks.push_back(i);
        break;
      }
      if (outcomes_[i].code == Code::miss) outcomes_[i].code = Code::unavailable;   // put aside, or gone from the view
    }
  }
  std::erase_if(groups, [](auto& entry) { return entry.second.blocks.empty(); });
  {
    Lock lock(mutex_);
    in_flight_ += groups.size() + 1;     // + 1: this dispatch, so that the last answer inside it does not end the call
  }
  for (auto& [_, group] : groups) send(std::move(group));
  bool last;
  {
    Lock lock(mutex_);
    last = --in_flight_ == 0;
  }
  if (last) finish();
}

void LoadCall::send(Group group) {
  std::vector<transfer::ReadItem> items;
  for (auto i : group.blocks) items.push_back({blocks_[i].key, items_[i].pieces});
  Time now = core_->runtime.now();
  // One that accepts and never answers must leave time for the next replica.
  Time deadline = group.last_resort ? deadline_ : std::min(deadline_, now + (deadline_ - now) / 2);
  auto owner = std::move(group.owner);   // not into the answer: whoever holds an Owner keeps its calls from ending
  group.transport = owner;
  owner->read(std::move(items), deadline,
              [self = shared_from_this(), group = std::move(group), given = deadline - now](std::vector<transfer::ReadOutcome> outcomes) {
    self->answered(group, given, std::move(outcomes));
  });
}

void LoadCall::answered(const Group& group, Duration given, std::vector<transfer::ReadOutcome> outcomes) {
  std::vector<uint32_t> again;
  std::map<Code, std::vector<BlockId>> failures;
  auto name = core_->name_of(group.node);
  auto owner = group.transport.lock();
  const char* transport = owner ? owner->transport() : "";
  for (size_t k = 0; k < group.blocks.size() && k < outcomes.size(); ++k) {
    uint32_t i = group.blocks[k];
    auto [code, length] = outcomes[k];
    if (code == Code::ok || code == Code::invalid) {
      outcomes_[i] = {code, length, name, transport};
      continue;
    }
    if (code != Code::miss) {
      failures[code].push_back(blocks_[i].key.id);
      outcomes_[i].code = code;          // stays, unless another replica has it
    }
    if (blocks_[i].next < blocks_[i].replicas.size()) again.push_back(i);
  }
  for (auto& [code, ids] : failures) core_->failed(group.node, code, given, std::move(ids));
  if (!again.empty()) {
    MP_REACHED("client: next replica");
    core_->counters.next_replica.add(again.size());
    dispatch(std::move(again));
  }
  bool last;
  {
    Lock lock(mutex_);
    last = --in_flight_ == 0;
  }
  if (last) finish();
}

void LoadCall::finish() {
  for (auto& outcome : outcomes_) {
    core_->counters.count_load(outcome.code);
    if (outcome.code == Code::ok) core_->counters.bytes_loaded.add(outcome.length);
  }
  core_->counters.load_seconds.add(core_->runtime.now() - started_);
  core_->runtime.post([self = shared_from_this()] { self->done_(std::move(self->outcomes_)); });
}

}  // namespace millpond::client
