#include "master/membership.h"

#include <algorithm>

#include "base/check.h"
#include "base/reached.h"

namespace millpond::master {

void Membership::move(Member& member, Standing to, Changes& changes) {
  if (member.standing == to) return;
  changes.push_back({member.index, member.standing, to});
  member.standing = to;
}

void Membership::bury(Member& member, Changes& changes) {
  NodeIndex index = member.index;
  move(member, Standing::gone, changes);
  gone_.push_back(index);
  auto latest = by_id_.find(member.facts.id);
  if (latest != by_id_.end() && latest->second == index) by_id_.erase(latest);
  members_.erase(index);
}

Result<NodeIndex> Membership::join(NodeFacts facts, Time now, Changes& changes) {
  auto known = by_id_.find(facts.id);
  if (known != by_id_.end()) {
    Member& member = members_.at(known->second);
    if (facts.epoch < member.facts.epoch)
      return error(Code::stale, "node {:016x} has booted again since (epoch {}, this is {}): two processes use one node id; end this one",
                   facts.id.value, member.facts.epoch.value, facts.epoch.value);
    if (facts.epoch == member.facts.epoch) {
      if (member.standing == Standing::dead) ++counters_.returns;
      member.facts = std::move(facts);
      member.heard = now;
      member.must_rejoin = false;
      move(member, Standing::alive, changes);
      ++counters_.joins;
      return member.index;
    }
    MP_REACHED("a node booted again");
    bury(member, changes);
  }
  if (members_.size() + gone_.size() >= options_.nodes_max)
    return error(Code::overloaded, "{} nodes are members: no room for node {:016x}", members_.size(), facts.id.value);

  NodeIndex index;
  if (next_ < options_.nodes_max) {
    index = NodeIndex(next_++);
  } else {
    MP_REACHED("node index reused");
    index = free_.front();
    free_.erase(free_.begin());
  }
  by_id_[facts.id] = index;
  members_[index] = Member{.facts = std::move(facts), .index = index, .standing = Standing::alive, .heard = now};
  changes.push_back({index, Standing::gone, Standing::alive});
  ++counters_.joins;
  return index;
}

Code Membership::heard(NodeId id, NodeEpoch epoch, Time now, Changes& changes) {
  auto known = by_id_.find(id);
  if (known == by_id_.end()) return Code::stale;
  Member& member = members_.at(known->second);
  if (member.facts.epoch != epoch || member.must_rejoin) return Code::stale;
  member.heard = std::max(member.heard, now);
  if (member.standing == Standing::dead) {
    MP_REACHED("a dead node came back");
    ++counters_.returns;
  }
  move(member, Standing::alive, changes);
  return Code::ok;
}

void Membership::connection_lost(NodeIndex index, Changes& changes) {
  auto found = members_.find(index);
  if (found != members_.end() && found->second.standing == Standing::alive) move(found->second, Standing::suspect, changes);
}

void Membership::leave(NodeId id, NodeEpoch epoch, Changes& changes) {
  auto known = by_id_.find(id);
  if (known == by_id_.end()) return;
  Member& member = members_.at(known->second);
  if (member.facts.epoch == epoch) bury(member, changes);
}

void Membership::require_rejoin(NodeIndex index) {
  if (auto found = members_.find(index); found != members_.end()) found->second.must_rejoin = true;
}

void Membership::tick(Time now, Changes& changes) {
  Duration gap = ticked_ ? now - *ticked_ : Duration(0);
  ticked_ = now;
  if (gap > options_.stall_gap) {
    MP_REACHED("the master stood still");
    ++counters_.stalls;
    for (auto& [index, member] : members_) {
      member.heard = std::min(now, member.heard + gap);
      member.dead_since = std::min(now, member.dead_since + gap);
    }
    if (grace_until_) grace_until_ = *grace_until_ + gap;
  }

  size_t watched = 0, silent = 0;
  for (auto& [index, member] : members_) {
    if (member.standing == Standing::dead) continue;
    ++watched;
    if (now - member.heard > options_.suspect_after) ++silent;
  }
  bool many = watched >= 3 && silent * 2 > watched;
  if (!many) {
    grace_until_.reset();
  } else if (!grace_until_) {
    MP_REACHED("many nodes fell silent at once");
    ++counters_.graces;
    grace_until_ = now + (options_.dead_after - options_.suspect_after) + options_.dead_after;
  }
  bool grace = grace_until_ && now < *grace_until_;

  std::vector<NodeIndex> ended;
  for (auto& [index, member] : members_) {
    Duration silence = now - member.heard;
    if (member.standing == Standing::dead) {
      if (now - member.dead_since > options_.sweep_after) ended.push_back(index);
    } else if (silence > options_.dead_after && !grace) {
      member.dead_since = now;
      ++counters_.deaths;
      move(member, Standing::dead, changes);
    } else if (silence > options_.suspect_after) {
      move(member, Standing::suspect, changes);
    }
  }
  for (NodeIndex index : ended) bury(members_.at(index), changes);
}

void Membership::release(NodeIndex index) {
  auto at = std::find(gone_.begin(), gone_.end(), index);
  MP_CHECK(at != gone_.end(), "node index {} is not waiting for release", index.value);
  gone_.erase(at);
  free_.push_back(index);
}

const Member* Membership::find(NodeId id, NodeEpoch epoch) const {
  const Member* member = find(id);
  return member && member->facts.epoch == epoch ? member : nullptr;
}

const Member* Membership::find(NodeId id) const {
  auto known = by_id_.find(id);
  return known == by_id_.end() ? nullptr : &members_.at(known->second);
}

const Member* Membership::at(NodeIndex index) const {
  auto found = members_.find(index);
  return found == members_.end() ? nullptr : &found->second;
}

std::vector<const Member*> Membership::members() const {
  std::vector<const Member*> all;
  for (auto& [index, member] : members_) all.push_back(&member);
  return all;
}

size_t Membership::count(Standing standing) const {
  return size_t(std::count_if(members_.begin(), members_.end(), [&](auto& m) { return m.second.standing == standing; }));
}

}  // namespace millpond::master
