#include "node/advertiser.h"

#include <algorithm>

#include "base/check.h"
#include "base/log.h"
#include "base/reached.h"

namespace millpond::node {
namespace {

AdvertItem item_of(const tier::Event& event) {
  AdvertKind kind = event.kind == tier::EventKind::add     ? AdvertKind::add
                    : event.kind == tier::EventKind::evict ? AdvertKind::evict
                                                           : AdvertKind::drop;
  return {kind, event.reason, event.id, event.root, event.length, event.sequence};
}

}  // namespace

std::optional<Advertiser::Send> Advertiser::next(Time now, uint64_t removals_seen) {
  tick(now);
  if (state_ == State::away) {
    if (now < join_at_) return std::nullopt;
    state_ = State::joining;
    joined_at_ = now;
    ever_sent_ = true;
    under_way_ = true;
    return Send{++call_, nullptr};
  }
  if (state_ == State::joining || under_way_) return std::nullopt;
  if (batch_) {
    if (now < resend_at_) return std::nullopt;
    MP_REACHED("node: batch sent again");
    ++counts_.resent;
  } else {
    if (tier_.events_lost()) {
      MP_REACHED("node: events lost");
      log::warn("node: more events than the tier keeps; joining again with a full inventory");
      go_away(now, true);
      retold_.clear();
      return next(now, removals_seen);
    }
    if (!build(removals_seen)) return std::nullopt;
  }
  under_way_ = true;
  return Send{++call_, &*batch_};
}

// Events first, then the table: an entry describes its block as of now, so events still queued only retell how it came
// to be so. While an inventory is due it gets half of each batch at least, or a busy writer would keep the cluster `warming`
// for ever.
bool Advertiser::build(uint64_t removals_seen) {
  Batch batch{.term = joined_term_, .sequence_first = sequence_next_, .removals_seen = removals_seen, .round = round_};
  bool walking = inventory_ == Inventory::due || inventory_ == Inventory::walking;
  size_t room = walking ? options_.batch_max / 2 : options_.batch_max;
  size_t retold = std::min(room, retold_.size());
  batch.items.assign(retold_.begin(), retold_.begin() + retold);
  retold_.erase(retold_.begin(), retold_.begin() + retold);
  if (room > batch.items.size() && retold_.empty()) {
    for (auto& event : tier_.take_events(room - batch.items.size())) batch.items.push_back(item_of(event));
  }
  // What has gone since it was added may have been removed meanwhile: `removals_seen` of now would vouch for it, and the
  // directory would tell of a removed block until its drop comes, batches later.
  for (auto& item : batch.items) {
    if (item.kind != AdvertKind::add || tier_.contains(item.id)) continue;
    MP_REACHED("node: added and gone before it was told");
    item.kind = AdvertKind::drop;
  }
  if (walking) {
    auto blocks = tier_.inventory(cursor_, std::max<size_t>(1, options_.batch_max - batch.items.size()));
    for (auto& block : blocks) batch.items.push_back({AdvertKind::inventory, tier::DropReason::none, block.id, block.root, block.length, 0});
    inventory_ = cursor_ == 0 ? Inventory::last_chunk_sent : Inventory::walking;
    batch.inventory_complete = cursor_ == 0;
  }
  if (batch.items.empty() && !walking) return false;
  batch_ = std::move(batch);
  return true;
}

Time Advertiser::wake_at() const {
  Time at = Time::max();
  if (state_ == State::away) at = join_at_;
  if (state_ == State::joining && !stream_missed_) at = joined_at_ + options_.master_deadline;
  if (state_ == State::joined && batch_ && !under_way_) at = resend_at_;
  if (!by_end_.empty()) at = std::min(at, by_end_.begin()->first);
  return at;
}

void Advertiser::tick(Time now) {
  // The join itself may take longer (it carries the removals); stores need not wait for it.
  if (state_ == State::joining && !stream_missed_ && now >= joined_at_ + options_.master_deadline) {
    stream_missed_ = true;
    end_all_waits();
  }
  while (!by_end_.empty() && by_end_.begin()->first <= now) {
    MP_REACHED("node: store ended before the master answered");
    end_wait(by_end_.begin()->second);
  }
}

bool Advertiser::join_answered(uint64_t call, Code code, uint64_t term, uint32_t round, Time now) {
  if (call != call_ || state_ != State::joining) return false;
  if (code != Code::ok || term < term_) {
    if (code == Code::ok) {
      MP_REACHED("node: master of a lower term");
      log::warn("node: a master of term {} answered, but term {} was seen: not joining it", term, term_);
    }
    call_failed(call, Code::refused, now);
    return false;
  }
  under_way_ = false;
  state_ = State::joined;
  stream_missed_ = heartbeat_missed_ = false;
  term_ = joined_term_ = term;
  round_ = round;
  ++joins_;
  sequence_next_ = 1;
  inventory_ = Inventory::due;
  cursor_ = 0;
  // Whatever was lost, this round's inventory tells it. What was to be told again is then dangerous: an add whose drop
  // was among the lost would stand confirmed in the new round, for ever.
  if (tier_.events_lost()) {
    MP_REACHED("node: events lost while away");
    retold_.clear();
  }
  covered_ = tier_.last_event();
  return true;
}

void Advertiser::batch_answered(uint64_t call, Code code, uint64_t acked, std::span<const uint8_t> answers, Time now) {
  if (call != call_ || state_ != State::joined || !under_way_) return;
  if (code == Code::stale) {
    MP_REACHED("node: stream stale");
    return go_away(now, true);
  }
  if (code != Code::ok) return call_failed(call, code, now);
  if (answers.size() != batch_->items.size() || acked + 1 != batch_->sequence_first + batch_->items.size()) {
    MP_REACHED("node: answer does not fit its batch");
    log::warn("node: the master answered {} items up to {} for a batch of {} from {}; joining again", answers.size(), acked, batch_->items.size(), batch_->sequence_first);
    return go_away(now, true);
  }
  under_way_ = false;
  stream_missed_ = heartbeat_missed_ = false;
  Batch batch = std::move(*batch_);
  batch_.reset();
  sequence_next_ += batch.items.size();
  for (size_t i = 0; i < batch.items.size(); ++i) {
    const AdvertItem& item = batch.items[i];
    bool present = item.kind == AdvertKind::add || item.kind == AdvertKind::inventory;
    Visibility visibility = Visibility::visible;
    if (present && answers[i] == uint8_t(AdvertAnswer::refused)) {
      drop_copy(item, tier::DropReason::refused);
      ++counts_.refused;
      visibility = Visibility::exists;
    } else if (present && answers[i] == uint8_t(AdvertAnswer::removed)) {
      drop_copy(item, tier::DropReason::removed);
      ++counts_.removed;
      visibility = Visibility::removed;
    }
    if (item.event) answer_event(item.event, visibility);
  }
  if (batch.inventory_complete) {
    inventory_ = Inventory::complete;
    answered_ = std::max(answered_, covered_);
  }
}

void Advertiser::call_failed(uint64_t call, Code code, Time now) {
  if (call != call_ || !under_way_) return;
  under_way_ = false;
  if (state_ == State::joined && code == Code::stale) return go_away(now, true);
  stream_missed_ = true;                 // before the waits end: those that come meanwhile do not wait either
  end_all_waits();
  if (state_ == State::joined && (code == Code::timed_out || code == Code::overloaded)) {
    // It may have been applied: the same batch under the same sequence again, the master repeats its answer. A master
    // that is silent has taken its deadline already; one that refuses at once is left alone for a while.
    resend_at_ = code == Code::timed_out ? now : now + options_.join_retry;
    return;
  }
  MP_REACHED("node: master lost");
  go_away(now, false);
}

// To a new round. Nothing is discarded but waiting: the events of the batch under way are told again.
void Advertiser::go_away(Time now, bool resync) {
  if (resync) ++counts_.resyncs;
  if (batch_) {
    std::vector<AdvertItem> events;
    for (auto& item : batch_->items) {
      if (item.event) events.push_back(item);
    }
    retold_.insert(retold_.begin(), events.begin(), events.end());
    batch_.reset();
  }
  ++call_;                               // whatever is under way no longer counts
  under_way_ = false;
  state_ = State::away;
  // One join per join_retry: a master that answers stale to everything is not flooded.
  join_at_ = ever_sent_ ? std::max(now, joined_at_ + options_.join_retry) : now;
  end_all_waits();
}

void Advertiser::rejoin(Time now) {
  if (state_ == State::joined) go_away(now, true);
}

void Advertiser::heard(Time) { heartbeat_missed_ = false; }

void Advertiser::missed(Time) {
  heartbeat_missed_ = true;
  end_all_waits();
}

bool Advertiser::accepts_term(uint64_t term, Time now) {
  if (term < term_) return false;
  if (term > term_) {
    term_ = term;
    if (state_ == State::joined) {
      MP_REACHED("node: later term seen");
      go_away(now, true);
    }
  }
  return true;
}

// Only the copy that was advertised: another may stand under this id by now, with events of its own.
void Advertiser::drop_copy(const AdvertItem& item, tier::DropReason reason) {
  auto view = tier_.find(item.id, Time{}, /*peek=*/true);
  if (view && view->root == item.root && view->length == item.length) tier_.drop(item.id, reason);
}

void Advertiser::wait(std::vector<uint64_t> sequences, Time until, Done done, Time now) {
  Wait wait{.outcomes = std::vector<Visibility>(sequences.size(), Visibility::visible), .until = until, .done = std::move(done)};
  wait.sequences = std::move(sequences);
  bool full = waits_.size() >= options_.waiters_max;
  if (full) MP_REACHED("node: too many stores wait");
  if (master_away() || full || until <= now) {
    for (size_t i = 0; i < wait.sequences.size(); ++i) {
      if (wait.sequences[i] > answered_) wait.outcomes[i] = Visibility::pending, ++counts_.pending;
    }
    done_.push_back({std::move(wait.done), std::move(wait.outcomes)});
    return;
  }
  uint64_t number = wait_next_++;
  for (size_t i = 0; i < wait.sequences.size(); ++i) {
    if (wait.sequences[i] <= answered_) continue;
    by_event_[wait.sequences[i]] = {number, i};
    wait.outcomes[i] = Visibility::pending;
    ++wait.open;
  }
  if (wait.open == 0) {
    done_.push_back({std::move(wait.done), std::move(wait.outcomes)});
    return;
  }
  by_end_.insert({until, number});
  waits_.emplace(number, std::move(wait));
}

void Advertiser::answer_event(uint64_t event, Visibility visibility) {
  answered_ = std::max(answered_, event);
  auto found = by_event_.find(event);
  if (found == by_event_.end()) return;
  auto [number, at] = found->second;
  by_event_.erase(found);
  Wait& wait = waits_.at(number);
  wait.outcomes[at] = visibility;
  if (--wait.open == 0) end_wait(number);
}

void Advertiser::end_wait(uint64_t number) {
  auto found = waits_.find(number);
  MP_CHECK(found != waits_.end(), "wait {}", number);
  Wait& wait = found->second;
  for (size_t i = 0; wait.open > 0 && i < wait.sequences.size(); ++i) {
    auto event = by_event_.find(wait.sequences[i]);
    if (event == by_event_.end() || event->second.first != number) continue;
    by_event_.erase(event);
    ++counts_.pending;
    --wait.open;
  }
  by_end_.erase({wait.until, number});
  done_.push_back({std::move(wait.done), std::move(wait.outcomes)});
  waits_.erase(found);
}

void Advertiser::end_all_waits() {
  if (!waits_.empty()) MP_REACHED("node: waiting stores end, the master is away");
  while (!by_end_.empty()) end_wait(by_end_.begin()->second);
}

std::vector<Advertiser::Finished> Advertiser::take_done() { return std::exchange(done_, {}); }

uint64_t Advertiser::unadvertised() const {
  uint64_t last = tier_.last_event();
  return last > answered_ ? last - answered_ : 0;
}

}  // namespace millpond::node
