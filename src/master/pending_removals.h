// Removes that wait until every live node has confirmed them. Lives on: one thread; no clock. Limits: kMax waiting.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/id.h"

namespace millpond::master {

class PendingRemovals {
 public:
  static constexpr size_t kMax = 4096;
  using Answer = std::function<void(uint32_t unconfirmed_nodes)>;

  bool full() const { return waiting_.size() >= kMax; }
  // Waits until all `nodes` have confirmed `number`; without nodes it answers at once. Returns a ticket for expire(), 0
  // if it has answered.
  uint64_t wait(uint64_t number, std::set<NodeIndex> nodes, Answer answer);
  void keep(uint64_t ticket, std::shared_ptr<void> timer);   // dropped with the answer
  void confirmed(NodeIndex node, uint64_t number);
  void lost(NodeIndex node);                                 // dead or gone: unconfirmed
  void expire(uint64_t ticket);
  size_t size() const { return waiting_.size(); }

 private:
  struct Waiting {
    uint64_t number;
    std::set<NodeIndex> nodes;
    uint32_t lost = 0;
    Answer answer;
    std::shared_ptr<void> timer;
  };
  template <typename Reached>
  void settle(NodeIndex node, bool lost, Reached reached);
  std::map<uint64_t, Waiting> waiting_;                      // by ticket
  uint64_t next_ = 1;
};

}  // namespace millpond::master
