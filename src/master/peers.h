// The master's own way to each node: pushes of removals, touches, and a probe when a reader says that it cannot reach it.
// One call of each kind is in flight per node; everything else waits in a bounded queue or is asked of the log again.
//
// Lives on: Core's lock.
#pragma once
#include <map>
#include <memory>

#include "master/touch_queue.h"
#include "rpc/runtime.h"

namespace millpond::master {

struct Core;

class Peers {
 public:
  static constexpr size_t kRemovalsPerPush = 16 << 10;
  static constexpr size_t kRunsPerTouch = 4096;
  static constexpr Duration kPushDeadline = std::chrono::seconds(1);
  static constexpr Duration kPushRetry = std::chrono::milliseconds(200);
  static constexpr Duration kStuckAfter = std::chrono::seconds(2);

  // A node joined (again) and stands at `removal_last`; the join's answer brings it what it missed, so that nothing is
  // pushed before it has had time to apply that.
  void joined(Core& core, NodeIndex index, uint64_t removal_last);
  void gone(NodeIndex index);
  // Where the node says it stands. Pushes what is missing.
  void stands_at(Core& core, NodeIndex index, uint64_t removal_last);
  uint64_t position(NodeIndex index) const;
  // It is behind, but applied something within the last moments: worth waiting for.
  bool catches_up(const Core& core, NodeIndex index) const;

  void push_all(Core& core);                               // to all alive and suspect nodes that are behind
  void touch(Core& core, NodeIndex index, const BlockId& last, uint32_t length);
  void flush_touches(Core& core);
  void probe(Core& core, NodeIndex index);                 // unavailable → suspect

 private:
  struct Peer {
    std::shared_ptr<rpc::Channel> channel;
    uint64_t position = 0;                                 // last removal that it is known to have applied
    Time push_not_before;
    Time moved;                                            // when it last applied something, or had nothing left to apply
    bool pushing = false, touching = false, probing = false;
    TouchQueue touches;
    uint64_t dropped_counted = 0;
  };
  void push(Core& core, NodeIndex index, Peer& peer);
  void push_answered(Core& core, NodeIndex index, const std::weak_ptr<rpc::Channel>& channel, Result<rpc::Reply> reply);
  void arm_touches(Core& core);
  Peer* find(NodeIndex index);
  std::map<NodeIndex, Peer> peers_;
};

}  // namespace millpond::master
