#include "master/pending_removals.h"

namespace millpond::master {

uint64_t PendingRemovals::wait(uint64_t number, std::set<NodeIndex> nodes, Answer answer) {
  if (nodes.empty()) {
    answer(0);
    return 0;
  }
  waiting_.emplace(next_, Waiting{.number = number, .nodes = std::move(nodes), .answer = std::move(answer)});
  return next_++;
}

void PendingRemovals::keep(uint64_t ticket, std::shared_ptr<void> timer) {
  if (auto at = waiting_.find(ticket); at != waiting_.end()) at->second.timer = std::move(timer);
}

template <typename Reached>
void PendingRemovals::settle(NodeIndex node, bool lost, Reached reached) {
  for (auto at = waiting_.begin(); at != waiting_.end();) {
    Waiting& w = at->second;
    if (reached(w) && w.nodes.erase(node)) w.lost += lost;
    if (!w.nodes.empty()) {
      ++at;
      continue;
    }
    w.answer(w.lost);
    at = waiting_.erase(at);
  }
}

void PendingRemovals::confirmed(NodeIndex node, uint64_t number) {
  settle(node, false, [&](const Waiting& w) { return w.number <= number; });
}

void PendingRemovals::lost(NodeIndex node) {
  settle(node, true, [](const Waiting&) { return true; });
}

void PendingRemovals::expire(uint64_t ticket) {
  auto at = waiting_.find(ticket);
  if (at == waiting_.end()) return;
  at->second.answer(uint32_t(at->second.nodes.size()) + at->second.lost);
  waiting_.erase(at);
}

}  // namespace millpond::master
