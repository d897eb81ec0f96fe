// Which nodes live. A node is (id, boot epoch); each pair has an index of its own for this term. Silence makes a node
// suspect, then dead; the same epoch speaking again undoes both. Only after `sweep_after` of death, a leave, or a later
// boot of the same node is it gone for good: its index is reused once the directory has been swept of it.
//
// Two things look like the death of many and are not: our own stall (this process did not run, so nobody could be
// heard), which tick() subtracts from everybody's silence; and the loss of our own network, where more than half of the
// nodes fall silent at once: their death is put off once by another dead_after.
//
// Lives on: one thread; no clock. Limits: nodes_max nodes.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/status.h"
#include "base/time.h"
#include "master/directory.h"

namespace millpond::master {

struct NodeFacts {
  NodeId id;
  NodeEpoch epoch;
  std::string name;              // for people
  std::string address;           // host:port of its data port
  std::string local_socket;      // "" = none
  uint64_t host_id = 0;
};

struct Member {
  NodeFacts facts;
  NodeIndex index = kNoNode;
  Standing standing = Standing::alive;
  Time heard;                    // last sign of life
  Time dead_since;
  bool must_rejoin = false;      // what it says does not count before it has joined again
};

struct Change {
  NodeIndex index;
  Standing from;
  Standing to;
};
using Changes = std::vector<Change>;

class Membership {
 public:
  struct Options {
    Duration suspect_after = std::chrono::seconds(3);
    Duration dead_after = std::chrono::seconds(10);
    Duration sweep_after = std::chrono::seconds(60);
    Duration stall_gap = std::chrono::milliseconds(500);   // ticks further apart than this: we stood still
    size_t nodes_max = 65'000;
  };
  explicit Membership(Options options) : options_(options) {}

  // A node (again). The same id and epoch keep their index unless they are gone; a later epoch makes the former gone.
  // Answers: stale (a later boot of this node is a member: this one must end); overloaded (nodes_max).
  Result<NodeIndex> join(NodeFacts facts, Time now, Changes& changes);

  // It spoke. stale: not a member, or it must join again.
  Code heard(NodeId id, NodeEpoch epoch, Time now, Changes& changes);
  // Its connection broke or was refused: suspect at once.
  void connection_lost(NodeIndex index, Changes& changes);
  // It said that it goes: gone at once.
  void leave(NodeId id, NodeEpoch epoch, Changes& changes);
  void require_rejoin(NodeIndex index);

  // REQUIRES: called every so often, several times within suspect_after.
  void tick(Time now, Changes& changes);
  // The directory holds nothing of this gone node any more: its index may be reused.
  void release(NodeIndex index);

  const Member* find(NodeId id, NodeEpoch epoch) const;   // null: not a member, or gone
  const Member* find(NodeId id) const;                    // of whatever epoch
  const Member* at(NodeIndex index) const;                // null: unused or gone
  std::vector<const Member*> members() const;             // by index; not the gone
  const std::vector<NodeIndex>& gone() const { return gone_; }   // waiting for release()
  size_t count(Standing standing) const;

  struct Counters {
    uint64_t joins = 0, deaths = 0, returns = 0, stalls = 0, graces = 0;
  };
  const Counters& counters() const { return counters_; }

 private:
  void move(Member& member, Standing to, Changes& changes);
  void bury(Member& member, Changes& changes);            // gone; `member` is erased

  Options options_;
  std::map<NodeIndex, Member> members_;
  std::map<NodeId, NodeIndex> by_id_;                     // the latest epoch of each
  std::vector<NodeIndex> gone_;
  std::vector<NodeIndex> free_;                           // released, oldest first: reuse is as late as possible
  uint16_t next_ = 0;
  std::optional<Time> ticked_;
  std::optional<Time> grace_until_;                       // set: many fell silent at once
  Counters counters_;
};

}  // namespace millpond::master
