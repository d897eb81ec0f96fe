// Ids are types: the compiler refuses a NodeIndex where a PageIndex is meant.
#pragma once
#include <compare>
#include <cstdint>
#include <functional>

namespace millpond {

template <typename Tag, typename Number>
struct Id {
  Number value{};
  constexpr Id() = default;
  constexpr explicit Id(Number v) : value(v) {}
  constexpr auto operator<=>(const Id&) const = default;
};

struct NodeId : Id<NodeId, uint64_t> { using Id::Id; };            // of a node, random, kept for its life
struct NodeEpoch : Id<NodeEpoch, uint64_t> { using Id::Id; };      // boot epoch of a node process; a later boot is larger
struct NodeIndex : Id<NodeIndex, uint16_t> { using Id::Id; };      // place of a node in a master's table, this term only
struct MasterTerm : Id<MasterTerm, uint64_t> { using Id::Id; };    // of a master's life; nodes refuse a lower one
struct NamespaceId : Id<NamespaceId, uint32_t> { using Id::Id; };  // a namespace, interned
struct Generation : Id<Generation, uint64_t> { using Id::Id; };    // of a slot: boot counter << 32 | n
struct ConnectionId : Id<ConnectionId, uint64_t> { using Id::Id; };

}  // namespace millpond

template <typename T>
  requires requires(T t) { t.value; } && std::is_base_of_v<millpond::Id<T, decltype(T::value)>, T>
struct std::hash<T> {
  size_t operator()(const T& id) const { return std::hash<decltype(id.value)>()(id.value); }
};
