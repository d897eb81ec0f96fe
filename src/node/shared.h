// What the parts of one node have in common. Held by shared_ptr: a callback keeps it for as long as it runs, a payload
// on its way out for as long as it is read. After close() nothing begins any more.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "node/advertiser.h"
#include "node/counters.h"
#include "node/generations.h"
#include "node/node.h"
#include "rpc/runtime.h"
#include "tier/dram_tier.h"

namespace millpond::node {

class MasterLink;
class DataService;

struct Shared : std::enable_shared_from_this<Shared> {
  Shared(Options o, rpc::Runtime& r, Metrics& m, std::unique_ptr<tier::DramTier> t);
  ~Shared();

  // Room for one block of a writer, after the generations of both sides have been compared. Any thread.
  Result<tier::Reservation> reserve(const tier::BlockSpec& spec);
  // `done` runs on the loop when the master has answered these events, was found away, or at `until`. Any thread.
  void wait_visible(std::vector<uint64_t> events, Time until, Advertiser::Done done);
  // A little before the caller gives up, so that the answer still finds it.
  Time answer_by(Time deadline) const;
  Code recheck(const BlockId& id);       // the tier's, counted
  // The code a writer is told.
  static Code code_of(Visibility visibility) { return visibility == Visibility::exists ? Code::exists : Code::ok; }

  uint32_t page_bytes() const { return uint32_t(tier->arena().page_size().count); }   // readers on this host cannot tell it from a list of pages
  NodeState state() const;
  std::string state_json() const;

  const Options options;
  rpc::Runtime& runtime;
  Counters counters;
  const std::unique_ptr<tier::DramTier> tier;
  Generations generations;
  const Time started;
  std::string name;
  std::string address;                   // where we listen
  std::string advertised;                // what peers use
  std::string socket_path;               // "": no shared memory

  std::atomic<bool> closed{false};
  std::atomic<std::thread::id> loop_thread{};
  // What the loop last knew, for readers on other threads.
  std::atomic<bool> joined{false};
  std::atomic<bool> inventory_complete{false};
  std::atomic<bool> master_away{false};
  std::atomic<uint64_t> answered{0};
  std::atomic<uint64_t> removal_last{0};
  std::atomic<uint64_t> term{0};

  std::shared_ptr<void> sweep_timer;     // loop only
  std::unique_ptr<MasterLink> link;      // last: they use the tier
  std::unique_ptr<DataService> service;
};

}  // namespace millpond::node
