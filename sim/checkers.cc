#include "sim/checkers.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/content.h"
#include "wire/message.h"

namespace millpond::sim {
namespace {
double at(Time time) { return seconds(time.since_start) - 3600; }   // the world begins at one hour
}  // namespace

Checkers::Checkers(World& world, Network& network, std::string tenant, std::string namespace_name) : world_(world) {
  space_ = {.tenant = std::move(tenant), .name = std::move(namespace_name)};
  network.watch([this](const Passing& message) { passing(message); });
}

void Checkers::violated(std::string text) {
  text = fmt::format("at {:.6f} s: {}", at(world_.now()), text);
  if (violations_.size() < 20) violations_.push_back(std::move(text));
}

void Checkers::tell(const std::string& key, const std::string& what) const {
  if (!followed_.empty() && key == followed_) fmt::print(stderr, "{:12.6f} {}: {}\n", at(world_.now()), key, what);
}

void Checkers::tell(const BlockId& id, const std::string& what) const {
  if (followed_.empty()) return;
  for (auto& one : ids_of(followed_))
    if (one == id) tell(followed_, what);
}

std::vector<BlockId> Checkers::ids_of(const std::string& key) const {
  std::vector<BlockId> ids;
  Namespace space = space_;
  for (space.generation = 0; space.generation <= generation_max_; ++space.generation) ids.push_back(hash_key(space, key).id);
  return ids;
}

// ---- what clients do ----

Checkers::StoreRef Checkers::store_starts(const std::string& key, uint32_t version) {
  auto& attempts = stores_[key];
  attempts.push_back({.key = key, .version = version, .start = world_.now()});
  tell(key, fmt::format("store of version {} starts", version));
  return {key, attempts.size() - 1};
}

void Checkers::store_ends(const StoreRef& ref, bool ok, Time deadline, ProcessId owner) {
  // Not ok, it may still take effect: whoever serves it knows the deadline only as well as its clock.
  constexpr Duration kSlack = std::chrono::milliseconds(200);
  auto& store = stores_[ref.first][ref.second];
  store.window_end = ok ? world_.now() : std::max(world_.now(), deadline) + kSlack;
  store.ok = ok;
  store.owner = owner;
  tell(ref.first, fmt::format("store of version {} {} at process {}, effective until {:.6f}", store.version, ok ? "is ok" : "has not succeeded", owner.value, at(store.window_end)));
}

void Checkers::removal_starts(const std::string& key) {
  if (key.empty()) wiped_last_ = world_.now();
  else removed_ever_.insert(key);
  tell(key.empty() ? followed_ : key, key.empty() ? "remove_all starts" : "remove starts");
}

bool Checkers::stored_since(const std::string& key, Time time) const {
  auto found = stores_.find(key);
  if (found == stores_.end()) return false;
  return std::any_of(found->second.begin(), found->second.end(), [&](const Store& store) { return store.window_end >= time; });
}

const Checkers::Applied* Checkers::applied(ProcessId process, const BlockId& id, Time at) const {
  auto found = removals_.find({process, id});
  return found != removals_.end() && found->second.done <= at ? &found->second : nullptr;
}

const Checkers::Applied* Checkers::applied(ProcessId process, const std::string& key, Time at) const {
  // Only the latest generation: who is asked in an older one has not heard, or answers stale.
  auto* removed = applied(process, ids_of(key).back(), at);
  auto found = wipes_.find(process);
  auto* wiped = found != wipes_.end() && found->second.second.done <= at ? &found->second.second : nullptr;
  return !removed || (wiped && wiped->first > removed->first) ? wiped : removed;
}

uint32_t Checkers::loaded(const std::string& key, ByteSpan bytes, Time start, ProcessId owner) {
  ++counted_;
  auto version = content_version(key, bytes);
  tell(key, fmt::format("load answers version {} from process {}", version.value_or(~0u), owner.value));
  if (!version) {
    violated(fmt::format("WRONG BYTES: a load of {} answered {} bytes that nobody stored under it", key, bytes.size()));
    return ~0u;
  }
  auto& attempts = stores_[key];
  if (std::none_of(attempts.begin(), attempts.end(), [&](const Store& store) { return store.version == *version; }))
    violated(fmt::format("WRONG BYTES: a load of {} answered version {}, which nobody stored", key, *version));
  if (owner == kWorldProcess) return *version;
  if (auto* gone = applied(owner, key, start); gone && !stored_since(key, gone->begun))
    violated(fmt::format("REMOVED CAME BACK: a load of {} begun at {:.6f} s was served by process {}, which had applied its removal by {:.6f} s; not stored since",
                         key, at(start), owner.value, at(gone->done)));
  return *version;
}

void Checkers::found(const std::string& key, uint64_t length, Time start, ProcessId master, ProcessId local) {
  ++counted_;
  tell(key, fmt::format("lookup finds {} bytes, told by master {}", length, master.value));
  auto& attempts = stores_[key];
  if (std::none_of(attempts.begin(), attempts.end(), [&](const Store& store) { return content_length(key, store.version) == length; }))
    violated(fmt::format("a lookup found {} with {} bytes, which nobody stored", key, length));
  // A master that hears of a removal late still believes a node that has stored the block again since the first heard.
  auto* gone = master == kWorldProcess ? nullptr : applied(master, key, start);
  if (!gone || stored_since(key, gone->first)) return;
  if (local != kWorldProcess) {
    auto* gone_here = applied(local, key, start);
    if (!gone_here || stored_since(key, gone_here->begun)) return;
  }
  violated(fmt::format("REMOVED CAME BACK: a lookup begun at {:.6f} s found {}, which the master had removed by {:.6f} s; not stored since", at(start), key,
                       at(gone->done)));
}

// ---- what passes ----

void Checkers::learned(ProcessId process, const BlockId& id, uint64_t number, Time begun, Time done) {
  auto& last = removal_number_[{process, id}];
  if (number != 0) {
    if (number <= last) return;          // it had that one before: skipped there, so nothing was dropped
    last = number;
  }
  auto first = number == 0 ? begun : removal_first_.emplace(std::pair(id, number), begun).first->second;
  removals_[{process, id}] = {begun, done, first};
  tell(id, fmt::format("process {} has applied removal {}, which it received at {:.6f}", process.value, number, at(begun)));
}

void Checkers::learned_wipe(ProcessId process, uint32_t generation, Time begun, Time done) {
  generation_max_ = std::max(generation_max_, generation);
  auto& [last, applied] = wipes_[process];
  if (generation <= last) return;
  last = generation;
  auto first = wipe_first_.emplace(generation, begun).first->second;
  applied = {first, done, first};
  tell(followed_, fmt::format("process {} has heard of generation {}, which it received at {:.6f}", process.value, generation, at(begun)));
}

void Checkers::passing(const Passing& message) {
  using wire::Kind;
  std::pair call{message.connection, message.request_id};
  auto take_records = [&](Asked& asked, auto* records) {
    for (auto& record : wire::span_of(records)) {
      if (record.kind() == uint8_t(wire::RemovalKind::block)) asked.ids.emplace_back(wire::id_of(record.id()), record.number());
      else if (record.id().namespace_id() == space_.id().value) asked.wipe = std::max(asked.wipe, record.generation());
    }
  };
  auto take_generations = [&](Asked& asked, auto* generations) {
    for (auto& one : wire::span_of(generations))
      if (one.namespace_id() == space_.id().value) asked.wipe = std::max(asked.wipe, one.generation());
  };
  auto done = [&](const Asked& asked) {
    for (auto& [id, number] : asked.ids) learned(asked.server, id, number, asked.begun, world_.now());
    if (asked.wipe) learned_wipe(asked.server, asked.wipe, asked.begun, world_.now());
  };
  Time now = world_.now();
  // Whoever names a generation makes it known: from then on blocks of it may be stored.
  auto names = [&](auto parsed) {
    if (!parsed || (*parsed)->generation() == 0) return;
    generation_max_ = std::max(generation_max_, (*parsed)->generation());
    wipe_first_.emplace((*parsed)->generation(), now);
  };
  switch (message.kind) {
    case Kind::lookup: names(wire::parse<wire::Lookup>(message.body)); break;
    case Kind::lookup_reply: names(wire::parse<wire::LookupReply>(message.body)); break;
    case Kind::open_namespace_reply: names(wire::parse<wire::OpenNamespaceReply>(message.body)); break;
    case Kind::remove_all_reply: names(wire::parse<wire::RemoveAllReply>(message.body)); break;
    case Kind::remove_reply: names(wire::parse<wire::RemoveReply>(message.body)); break;
    case Kind::store: names(wire::parse<wire::Store>(message.body)); break;
    case Kind::store_reply: names(wire::parse<wire::StoreReply>(message.body)); break;
    default: break;
  }

  if (message.arrived && !message.reply) {
    if (message.kind == Kind::remove) {
      auto parsed = wire::parse<wire::Remove>(message.body);
      if (!parsed) return;
      Asked asked{.server = message.target, .begun = now};
      for (auto& id : wire::span_of((*parsed)->ids())) asked.ids.emplace_back(wire::id_of(id), 0);
      asked_[call] = std::move(asked);
    } else if (message.kind == Kind::remove_all) {
      asked_[call] = {.server = message.target, .begun = now};
    } else if (message.kind == Kind::apply_removals) {
      auto parsed = wire::parse<wire::ApplyRemovals>(message.body);
      if (!parsed) return;
      Asked asked{.server = message.target, .begun = now};
      take_records(asked, (*parsed)->removals());
      take_generations(asked, (*parsed)->generations());
      asked_[call] = std::move(asked);
    } else if (message.kind == Kind::join) {
      auto parsed = wire::parse<wire::Join>(message.body);
      if (!parsed) return;
      Asked asked{.server = message.target, .begun = now};
      take_records(asked, (*parsed)->removals());
      take_generations(asked, (*parsed)->generations());
      asked_[call] = std::move(asked);
    }
    return;
  }

  // What a master sends it has: a node that tells it of the same removal tells it nothing new.
  auto had_by = [&](ProcessId process, auto* records) {
    for (auto& record : wire::span_of(records))
      if (record.kind() == uint8_t(wire::RemovalKind::block)) {
        auto& last = removal_number_[{process, wire::id_of(record.id())}];
        last = std::max(last, record.number());
      }
  };
  if (!message.arrived && message.kind == Kind::apply_removals)
    if (auto parsed = wire::parse<wire::ApplyRemovals>(message.body)) had_by(message.source, (*parsed)->removals());

  if (!message.arrived && message.reply) {
    auto found = asked_.find(call);
    if (found == asked_.end()) return;
    auto& asked = found->second;
    bool counts = false;
    if (message.kind == Kind::remove_reply) {
      auto parsed = wire::parse<wire::RemoveReply>(message.body);
      counts = parsed && (*parsed)->code() == uint8_t(Code::ok);
    } else if (message.kind == Kind::remove_all_reply) {
      auto parsed = wire::parse<wire::RemoveAllReply>(message.body);
      counts = parsed && (*parsed)->code() == uint8_t(Code::ok);
      if (counts) asked.wipe = (*parsed)->generation();
    } else if (message.kind == Kind::apply_removals_reply) {
      auto parsed = wire::parse<wire::ApplyRemovalsReply>(message.body);
      uint64_t last = 0;
      for (auto& [id, number] : asked.ids) last = std::max(last, number);
      counts = parsed && (*parsed)->code() == uint8_t(Code::ok) && (*parsed)->removal_last() >= last;
    } else if (message.kind == Kind::join_reply) {
      auto parsed = wire::parse<wire::JoinReply>(message.body);
      counts = parsed && (*parsed)->code() == uint8_t(Code::ok);
      if (counts) {
        done(asked);
        had_by(message.source, (*parsed)->removals());
        asked.ids.clear();
      }
    }
    if (counts) done(asked);
    asked_.erase(found);
    return;
  }

  if (message.arrived && message.kind == Kind::join_reply) {
    auto parsed = wire::parse<wire::JoinReply>(message.body);
    if (!parsed || (*parsed)->code() != uint8_t(Code::ok)) return;
    Asked asked{.server = message.target, .begun = now};
    take_records(asked, (*parsed)->removals());
    take_generations(asked, (*parsed)->generations());
    joining_[message.target] = std::move(asked);
    return;
  }

  if (!message.arrived && message.kind == Kind::advertise) {
    // It goes on with its stream, so it has applied what the join brought.
    if (auto found = joining_.find(message.source); found != joining_.end()) {
      done(found->second);
      joining_.erase(found);
    }
    auto parsed = wire::parse<wire::Advertise>(message.body);
    if (!parsed) return;
    for (auto& item : wire::span_of((*parsed)->items())) {
      if (!followed_.empty())
        tell(wire::id_of(item.id()), fmt::format("process {} advertises {}, reason {}", message.source.value, wire::EnumNameAdvertKind(wire::AdvertKind(item.kind())), item.reason()));
      if (item.kind() == uint8_t(wire::AdvertKind::evict) || item.kind() == uint8_t(wire::AdvertKind::drop))
        gone_.insert({message.source, wire::id_of(item.id())});
    }
  }
}

// ---- after quiet ----

void Checkers::compare(const std::vector<Held>& directory, const std::vector<Held>& nodes) {
  ++counted_;
  auto sorted = [](std::vector<Held> held) {
    std::sort(held.begin(), held.end());
    return held;
  };
  auto told = sorted(directory), here = sorted(nodes);
  if (told == here) return;
  std::vector<Held> missing, extra;
  std::set_difference(here.begin(), here.end(), told.begin(), told.end(), std::back_inserter(missing));
  std::set_difference(told.begin(), told.end(), here.begin(), here.end(), std::back_inserter(extra));
  auto name = [&](const Held& held) {
    for (auto& [key, attempts] : stores_)
      for (auto& id : ids_of(key))
        if (id == held.id) return key;
    return text(held.id);
  };
  if (!missing.empty())
    violated(fmt::format("DIRECTORY: {} blocks stand at nodes and not in the directory, such as {} at node {:x}", missing.size(), name(missing[0]), missing[0].node_id));
  if (!extra.empty())
    violated(fmt::format("DIRECTORY: {} blocks stand in the directory and not at the node, such as {} at node {:x}", extra.size(), name(extra[0]), extra[0].node_id));
}

void Checkers::after_quiet(const std::vector<ProcessId>& nodes_alive, const std::vector<ProcessId>& all_alive,
                           const std::function<bool(ProcessId, const BlockId&)>& holds) {
  for (auto& [key, attempts] : stores_) {
    auto ids = ids_of(key);
    // Whoever lives has told all others who live.
    uint32_t generation = 0;
    for (auto process : all_alive)
      if (auto found = wipes_.find(process); found != wipes_.end()) generation = std::max(generation, found->second.first);
    for (uint32_t g = 0; g < ids.size(); ++g) {
      const Applied* gone = nullptr;
      for (auto process : all_alive)
        if (auto* here = applied(process, ids[g], world_.now()); here && (!gone || here->first > gone->first)) gone = here;
      bool removed = gone && !stored_since(key, gone->first);
      if (!removed && g >= generation) continue;
      ++counted_;
      for (auto process : nodes_alive)
        if (holds(process, ids[g]))
          violated(fmt::format("REMOVED CAME BACK: {} of generation {} stands at process {}, though {}", key, g, process.value,
                               removed ? fmt::format("removed by {:.6f} s and not stored since", at(gone->done)) : fmt::format("generation {} is known", generation)));
    }
    if (removed_ever_.contains(key) || !evictions_told_) continue;
    for (auto& store : attempts) {
      if (!store.ok || store.owner == kWorldProcess || store.start <= wiped_last_) continue;
      if (std::find(nodes_alive.begin(), nodes_alive.end(), store.owner) == nodes_alive.end()) continue;
      ++counted_;
      bool there = std::any_of(ids.begin(), ids.end(), [&](const BlockId& id) { return holds(store.owner, id) || gone_.contains({store.owner, id}); });
      if (!there)
        violated(fmt::format("LOST: {} was stored at process {} by {:.6f} s, is not there, and was neither evicted nor dropped", key, store.owner.value,
                             at(store.window_end)));
    }
  }
}

}  // namespace millpond::sim
