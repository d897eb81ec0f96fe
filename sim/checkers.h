// What must hold whatever happens, watched from outside: by what clients ask and are told, and by what passes on the
// network. Always on.
//
// - A load's bytes are, all of them, one version that somebody stored under that key before.
// - Every call ends by its deadline, and leaves its caller's memory alone afterwards.
// - Removed means gone: a process that has applied a removal does not serve, or tell of, the block again, unless a
//   store of it was under way or came later; after quiet nobody alive has it, if anybody alive has applied it.
// - A store that was answered ok stands at its owner, until that evicts or drops it and says so.
// - After quiet the directory equals the union of the nodes (Cluster asks both and calls compare()).
// used + free = arena is asked of every node after each of its steps (Cluster).
//
// Knows no implementation: only messages, keys and times. Lives on: the world's thread.
#pragma once
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "base/block_id.h"
#include "sim/network.h"
#include "sim/world.h"

namespace millpond::sim {

class Checkers {
 public:
  Checkers(World& world, Network& network, std::string tenant, std::string namespace_name);

  // ---- what clients do, in world time ----
  // `owner_life`: the process that the answer's owner name means now, kWorldProcess when that is not known.
  struct Store {
    std::string key;
    uint32_t version = 0;
    Time start;
    Time window_end = Time::max();       // it may take effect until then
    bool ok = false;
    ProcessId owner = kWorldProcess;
  };
  using StoreRef = std::pair<std::string, size_t>;
  StoreRef store_starts(const std::string& key, uint32_t version);
  void store_ends(const StoreRef& store, bool ok, Time deadline, ProcessId owner);
  // A load of `key` that began at `start` answered these bytes from that process. Returns their version, ~0 if none.
  uint32_t loaded(const std::string& key, ByteSpan bytes, Time start, ProcessId owner);
  // A lookup that began at `start` found `key` with this length, told by that master (and, if it is not the world, by a
  // node in the client's own process).
  void found(const std::string& key, uint64_t length, Time start, ProcessId master, ProcessId local);
  void removal_starts(const std::string& key);         // empty: all keys

  void violated(std::string text);
  // Tells on stderr whatever happens to this key. For people with a failing seed.
  void follow(std::string key) { followed_ = std::move(key); }
  // A node whose queue of events overflows does not tell each eviction: a block that is not there may be evicted.
  void evictions_may_be_untold() { evictions_told_ = false; }
  const std::vector<std::string>& violations() const { return violations_; }

  // ---- after quiet ----
  struct Held {
    BlockId id;
    uint64_t node_id = 0;
    uint64_t root = 0;
    uint64_t length = 0;
    auto operator<=>(const Held&) const = default;
  };
  void compare(const std::vector<Held>& directory, const std::vector<Held>& nodes);
  // `holds(process, id)`: does this node hold it now?
  void after_quiet(const std::vector<ProcessId>& nodes_alive, const std::vector<ProcessId>& all_alive,
                   const std::function<bool(ProcessId, const BlockId&)>& holds);

  uint32_t generation() const { return generation_max_; }      // the latest that any message named
  std::vector<BlockId> ids_of(const std::string& key) const;   // in every generation so far
  const std::map<std::string, std::vector<Store>>& stores() const { return stores_; }
  uint64_t counted() const { return counted_; }         // how many statements were checked

 private:
  struct Applied {                       // a removal by a process
    Time begun;                          // its message was here; of a wipe: at the first process that heard of it
    Time done = Time::max();             // it was answered
    Time first{};                        // when the first process had it: others may store the block again from then on
  };
  void passing(const Passing& message);
  void tell(const std::string& key, const std::string& what) const;
  void tell(const BlockId& id, const std::string& what) const;
  void learned(ProcessId process, const BlockId& id, uint64_t number, Time begun, Time done);
  void learned_wipe(ProcessId process, uint32_t generation, Time begun, Time done);
  // The last removal of `key` that this process had surely applied before `at`: nothing stored before `begun` is there.
  const Applied* applied(ProcessId process, const std::string& key, Time at) const;
  const Applied* applied(ProcessId process, const BlockId& id, Time at) const;
  bool stored_since(const std::string& key, Time time) const;

  World& world_;
  Namespace space_;
  std::string followed_;
  bool evictions_told_ = true;
  uint32_t generation_max_ = 0;
  std::map<std::string, std::vector<Store>> stores_;
  std::set<std::string> removed_ever_;
  Time wiped_last_{Duration(-1)};
  std::map<std::pair<ProcessId, BlockId>, Applied> removals_;
  std::map<std::pair<ProcessId, BlockId>, uint64_t> removal_number_;
  std::map<ProcessId, std::pair<uint32_t, Applied>> wipes_;
  std::map<std::pair<BlockId, uint64_t>, Time> removal_first_;
  std::map<uint32_t, Time> wipe_first_;
  std::set<std::pair<ProcessId, BlockId>> gone_;         // evicted or dropped there, as it told the master

  struct Asked {                         // a request whose answer says that it was done
    ProcessId server;
    Time begun;
    std::vector<std::pair<BlockId, uint64_t>> ids;
    uint32_t wipe = 0;
  };
  std::map<std::pair<uint64_t, uint64_t>, Asked> asked_;   // by connection and request
  std::map<ProcessId, Asked> joining_;                     // what a join's answer brought; applied when the node goes on
  std::vector<std::string> violations_;
  uint64_t counted_ = 0;
};

}  // namespace millpond::sim
