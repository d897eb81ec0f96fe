// What a node is to be told about recency: the last block of each contiguous run that a lookup found at it. Runs wait
// here for the next batch; the same run looked up again while it waits costs nothing more.
//
// Lives on: one thread. Limits: kWaitingMax runs per node; beyond it the oldest are dropped and counted.
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <deque>
#include <span>
#include <vector>

#include "base/block_id.h"
#include "base/id.h"
#include "master/directory.h"

namespace millpond::master {

struct TouchedRun {            // = wire::TouchRun
  BlockId id;                  // the last block of the run
  uint32_t length = 0;         // blocks
  uint32_t zero = 0;
};
static_assert(sizeof(TouchedRun) == 32);

// Calls run(node, position of the last block, length) for each contiguous run of blocks that one node holds.
// `replicas` are ordered by block.
template <typename Run>
void for_each_run(std::span<const FoundReplica> replicas, Run run) {
  struct Open {
    uint16_t node;
    uint32_t last, length;
  };
  std::vector<Open> open;      // as many as nodes hold this prefix: few
  for (auto& r : replicas) {
    Open* mine = nullptr;
    for (auto& o : open)
      if (o.node == r.node) mine = &o;
    if (!mine) {
      open.push_back({r.node, r.block, 1});
    } else if (mine->last + 1 == r.block) {
      mine->last = r.block;
      ++mine->length;
    } else if (mine->last != r.block) {
      run(NodeIndex(mine->node), mine->last, mine->length);
      *mine = {r.node, r.block, 1};
    }
  }
  for (auto& o : open) run(NodeIndex(o.node), o.last, o.length);
}

class TouchQueue {
 public:
  static constexpr size_t kWaitingMax = 8192;

  void add(const BlockId& last, uint32_t length);
  std::vector<TouchedRun> take(size_t max);                // oldest first
  bool empty() const { return runs_.empty(); }
  uint64_t dropped() const { return dropped_; }

 private:
  void pop();
  std::deque<TouchedRun> runs_;
  uint64_t first_ = 0;                                     // number of runs_.front()
  boost::unordered_flat_map<BlockId, uint64_t, BlockIdHash> waiting_;   // id → number of its run
  uint64_t dropped_ = 0;
};

}  // namespace millpond::master
