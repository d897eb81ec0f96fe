// Pages that writers on this host fill themselves, by the connection that reserved them. They return by commit, abort
// or the end of that connection, never by a timer: a stopped writer may wake up and write.
// Lives on: the node's loop. Limits per connection: bytes_max, count_max.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <utility>

#include "base/id.h"
#include "tier/dram_tier.h"

namespace millpond::node {

class Reservations {
 public:
  struct Options {
    Bytes bytes_max;                     // a quarter of the arena: three writers that hang cannot stop the rest
    size_t count_max = 4096;
  };
  explicit Reservations(Options options) : options_(options) {}

  // May this connection reserve `length` more?
  bool room_for(ConnectionId connection, uint64_t length) const {
    if (length > options_.bytes_max.count) return false;
    auto found = writers_.find(connection);
    return found == writers_.end() || (found->second.held.size() < options_.count_max && found->second.bytes + length <= options_.bytes_max.count);
  }
  void add(ConnectionId connection, tier::Reservation reservation) {
    Writer& writer = writers_[connection];
    writer.bytes += reservation.length();
    Name name{reservation.handle(), reservation.generation().value};
    writer.held.emplace(name, std::move(reservation));
  }
  // Hands it over; nullopt: this connection holds none of this name.
  std::optional<tier::Reservation> take(ConnectionId connection, uint64_t handle, uint64_t generation) {
    auto writer = writers_.find(connection);
    if (writer == writers_.end()) return std::nullopt;
    auto held = writer->second.held.find({handle, generation});
    if (held == writer->second.held.end()) return std::nullopt;
    std::optional<tier::Reservation> taken(std::move(held->second));
    writer->second.bytes -= taken->length();
    writer->second.held.erase(held);
    if (writer->second.held.empty()) writers_.erase(writer);
    return taken;
  }
  // Length of a held one, so that a commit can be checked before it is taken.
  std::optional<uint64_t> length(ConnectionId connection, uint64_t handle, uint64_t generation) const {
    auto writer = writers_.find(connection);
    if (writer == writers_.end()) return std::nullopt;
    auto held = writer->second.held.find({handle, generation});
    return held == writer->second.held.end() ? std::nullopt : std::optional(held->second.length());
  }
  // The connection ended: all it held goes back. Answers how many.
  size_t closed(ConnectionId connection) {
    auto found = writers_.find(connection);
    if (found == writers_.end()) return 0;
    size_t count = found->second.held.size();
    writers_.erase(found);
    return count;
  }

 private:
  using Name = std::pair<uint64_t, uint64_t>;   // handle, generation
  struct Writer {
    std::map<Name, tier::Reservation> held;
    uint64_t bytes = 0;
  };
  const Options options_;
  std::map<ConnectionId, Writer> writers_;
};

}  // namespace millpond::node
