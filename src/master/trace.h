// Why is a block not here? A ring of the last departures (evicted, removed, owner lost, …), found by id, so that a miss
// can be explained. 48 bytes per departure, and an index.
//
// Lives on: one thread; no clock. Limits: `kept` departures; older ones read as "never seen".
#pragma once
#include <boost/unordered/unordered_flat_map.hpp>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "base/block_id.h"
#include "base/id.h"
#include "base/time.h"

namespace millpond::master {

// The first six are what an Advert of kind drop carries in `reason` (the tier's DropReason).
enum class Departure : uint8_t { none, removed, wiped, corrupt, refused, replaced, evicted, owner_lost };
std::string_view text(Departure why);      // "evicted"

struct Departed {
  BlockId id;
  NodeId node;                             // 0: all nodes
  Time when;
  Departure why = Departure::none;
};

class Trace {
 public:
  explicit Trace(size_t kept) : kept_(kept) {}
  void record(const Departed& departed);
  std::optional<Departed> find(const BlockId& id) const;   // the latest
  size_t size() const { return ring_.size(); }

 private:
  struct PassThrough {
    using is_avalanching = void;
    size_t operator()(uint64_t fingerprint) const { return fingerprint; }
  };
  size_t kept_;
  size_t next_ = 0;                        // where the ring is written
  std::vector<Departed> ring_;
  boost::unordered_flat_map<uint64_t, uint32_t, PassThrough> latest_;   // fingerprint of the id → place in the ring
};

}  // namespace millpond::master
