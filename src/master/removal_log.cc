#include "master/removal_log.h"

#include <algorithm>

#include "base/check.h"
#include "base/reached.h"

namespace millpond::master {

RemovalLog::RemovalLog(Options options) : options_(options) {
  MP_CHECK(options_.kept > 0, "a removal log that keeps nothing would make every node drop everything");
}

uint64_t RemovalLog::next_number() const { return std::max(last_ + 1, base() + 1); }

RemovalLog::Space* RemovalLog::space(NamespaceId id) {
  auto found = spaces_.find(id);
  if (found != spaces_.end()) return &found->second;
  if (spaces_.size() >= options_.namespaces_max) return nullptr;
  return &spaces_[id];
}

void RemovalLog::append(RemovalRecord record) {
  MP_CHECK(record.number > last_, "removal {} after {}", record.number, last_);
  last_ = record.number;
  records_.push_back(record);
  Space* of = space(NamespaceId(record.id.namespace_id));
  if (record.kind == RemovalKind::namespace_wiped) {
    if (of) {
      of->generation = std::max(of->generation, record.generation);
      of->wiped = record.number;
    }
  } else {
    removed_.insert(record.id, table_hash(record.id)).first->number = record.number;
  }
  while (records_.size() > options_.kept) {
    const RemovalRecord& oldest = records_.front();
    floor_ = std::max(floor_, oldest.number);              // a gap that a merge found may lie above it
    if (oldest.kind == RemovalKind::block) {
      LastNumber* remembered = removed_.find(oldest.id, table_hash(oldest.id));
      if (remembered && remembered->number == oldest.number) removed_.erase(remembered);
    }
    // A namespace we have no room to remember: what was beyond our reach can no longer be told.
    if (Space* forgotten = space(NamespaceId(oldest.id.namespace_id)))
      forgotten->trimmed = oldest.number;
    else
      unknown_floor_ = std::max(unknown_floor_, oldest.number);
    records_.pop_front();
  }
}

void RemovalLog::remove(const BlockId& id) { append({.id = id, .number = next_number()}); }

Result<uint32_t> RemovalLog::wipe(NamespaceId id, uint32_t floor) {
  Space* of = space(id);
  if (!of) return error(Code::overloaded, "{} namespaces are known: no room for another", spaces_.size());
  uint32_t generation = std::max(of->generation, floor);
  if (generation == ~0u) return error(Code::invalid, "the generation of namespace {:08x} is {}: it cannot rise", id.value, generation);
  BlockId of_space;
  of_space.namespace_id = id.value;
  append({.id = of_space, .number = next_number(), .generation = generation + 1, .kind = RemovalKind::namespace_wiped});
  return generation + 1;
}

uint32_t RemovalLog::generation(NamespaceId id) const {
  auto found = spaces_.find(id);
  return found == spaces_.end() ? 0 : found->second.generation;
}

void RemovalLog::learn_generation(NamespaceId id, uint32_t generation) {
  if (generation <= this->generation(id) || !space(id)) return;
  BlockId of_space;
  of_space.namespace_id = id.value;
  append({.id = of_space, .number = next_number(), .generation = generation, .kind = RemovalKind::namespace_wiped});
}

std::vector<std::pair<NamespaceId, uint32_t>> RemovalLog::generations() const {
  std::vector<std::pair<NamespaceId, uint32_t>> all;
  for (auto& [id, space] : spaces_)
    if (space.generation) all.emplace_back(id, space.generation);
  return all;
}

bool RemovalLog::covers(const RemovalRecord& record) const {
  if (record.kind == RemovalKind::namespace_wiped) return generation(NamespaceId(record.id.namespace_id)) >= record.generation;
  const LastNumber* last = removed_.find(record.id, table_hash(record.id));
  return last && last->number >= record.number;
}

std::vector<RemovalRecord> RemovalLog::merge(uint64_t node_last, std::span<const RemovalRecord> tail) {
  MP_CHECK(plausible(node_last), "removal {} is of a later term than {}", node_last, options_.term.value);
  std::vector<RemovalRecord> told(tail.begin(), tail.end());
  auto by_number = [](const RemovalRecord& a, const RemovalRecord& b) { return a.number < b.number; };
  std::sort(told.begin(), told.end(), by_number);
  std::erase_if(told, [&](const RemovalRecord& r) { return r.number == 0 || r.number > node_last; });
  bool told_all = told.size() < options_.kept && (!told.empty() || node_last == 0);

  // What the node should have applied by its number, but has not: removals of other terms that its masters never knew.
  std::vector<RemovalRecord> again;
  if (node_last) {
    for (auto& r : records_) {
      if (r.number > node_last) break;
      if (term_of(r.number) == term_of(node_last) || r.number > base()) continue;
      if (std::binary_search(told.begin(), told.end(), r, by_number)) continue;
      if (r.kind == RemovalKind::block) {
        const LastNumber* last = removed_.find(r.id, table_hash(r.id));
        if (last && last->number != r.number) continue;   // a later one of the same id stands for it
      } else if (generation(NamespaceId(r.id.namespace_id)) > r.generation) {
        continue;
      }
      MP_REACHED("a node had skipped removals of another term");
      again.push_back(r);
    }
  }

  std::vector<RemovalRecord> news;
  if (node_last > last_ && !told_all) {
    uint64_t complete_after = told.empty() ? node_last : told.front().number - 1;
    if (complete_after > last_) {
      MP_REACHED("removals between ours and a node's are lost");
      floor_ = std::max(floor_, complete_after);
      unknown_floor_ = std::max(unknown_floor_, complete_after);
    }
  }
  for (auto& r : told) {
    if (covers(r)) continue;
    if (r.number > last_) {
      append(r);
      news.push_back(r);
    } else if (r.number > base()) {
      continue;                            // ours: issued and forgotten since
    } else {
      MP_REACHED("a node knew removals that others never saw");
      again.push_back(r);
    }
  }
  last_ = std::max(last_, node_last);
  for (RemovalRecord r : again) {
    r.number = next_number();
    append(r);
    news.push_back(r);
    ++issued_again_;
  }
  return news;
}

std::vector<RemovalRecord> RemovalLog::since(uint64_t number, size_t max) const {
  auto from = std::upper_bound(records_.begin(), records_.end(), number, [](uint64_t n, const RemovalRecord& r) { return n < r.number; });
  size_t count = std::min<size_t>(max, size_t(records_.end() - from));
  return {from, from + long(count)};
}

std::vector<NamespaceId> RemovalLog::touched_beyond_reach(uint64_t number) const {
  std::vector<NamespaceId> touched;
  if (number < unknown_floor_) return touched;
  for (auto& [id, space] : spaces_)
    if (space.trimmed > number) touched.push_back(id);
  std::sort(touched.begin(), touched.end());
  return touched;
}

bool RemovalLog::removed_since(const BlockId& id, uint64_t seen) const {
  if (seen >= last_) return false;
  const LastNumber* last = removed_.find(id, table_hash(id));
  if (last && last->number > seen) return true;
  auto space = spaces_.find(NamespaceId(id.namespace_id));
  return space != spaces_.end() && space->second.wiped > seen;
}

uint64_t RemovalLog::floor_after(size_t more) const {
  size_t total = records_.size() + more;
  if (total <= options_.kept) return floor_;
  size_t trimmed = total - options_.kept;
  return trimmed <= records_.size() ? std::max(floor_, records_[trimmed - 1].number) : last_;
}

}  // namespace millpond::master
