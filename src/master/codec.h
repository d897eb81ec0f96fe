// Between messages and the pure classes' structs. For .cc files.
#pragma once
#include <cstring>
#include <type_traits>
#include <vector>

#include "master/directory.h"
#include "master/removal_log.h"
#include "master/view.h"
#include "rpc/runtime.h"
#include "wire/limits.h"
#include "wire/message.h"

namespace millpond::master {

// Our structs are the wire's, byte for byte, so that a vector crosses over in one copy.
static_assert(sizeof(AdvertItem) == sizeof(wire::Advert) && sizeof(FoundReplica) == sizeof(wire::Replica) && sizeof(RemovalRecord) == sizeof(wire::Removal));
static_assert(int(AdvertKind::drop) == int(wire::AdvertKind::drop) && int(AdvertKind::inventory) == int(wire::AdvertKind::inventory));
static_assert(int(AdvertAnswer::noted) == int(wire::AdvertAnswer::noted) && int(AdvertAnswer::removed) == int(wire::AdvertAnswer::removed));
static_assert(int(RemovalKind::namespace_wiped) == int(wire::RemovalKind::namespace_wiped));
static_assert(int(Standing::suspect) == int(wire::NodeState::suspect) && int(Standing::dead) == int(wire::NodeState::dead));

// A vector out of a peer's message, copied (the verifier checks that it lies inside, not that it is aligned), or invalid:
// it is longer than `max`.
template <typename Ours, typename Element>
Result<std::vector<Ours>> taken(const flatbuffers::Vector<Element>* vector, const char* what, size_t max = wire::kIdsPerMessageMax) {
  using Theirs = std::remove_cv_t<std::remove_pointer_t<Element>>;
  static_assert(sizeof(Ours) == sizeof(Theirs) && std::is_trivially_copyable_v<Ours>);
  size_t count = vector ? vector->size() : 0;
  if (count > max) return error(Code::invalid, "{} {} in one message; at most {}: cut it", count, what, max);
  std::vector<Ours> copy(count);
  if (count) std::memcpy(static_cast<void*>(copy.data()), vector->Data(), count * sizeof(Ours));
  return copy;
}

template <typename Theirs, typename Ours>
auto given(wire::Builder& b, const std::vector<Ours>& values) {
  static_assert(sizeof(Ours) == sizeof(Theirs));
  return b.CreateVectorOfStructs(reinterpret_cast<const Theirs*>(values.data()), values.size());
}

// The view for one who has `version`; null if that is ours.
inline flatbuffers::Offset<wire::ClusterView> view_for(wire::Builder& b, const View& view, uint64_t term, uint64_t version) {
  if (version == view.version()) return {};
  std::vector<flatbuffers::Offset<wire::NodeInfo>> nodes;
  for (auto& row : view.rows())
    nodes.push_back(wire::CreateNodeInfo(b, row.index.value, row.facts.id.value, row.facts.epoch.value, b.CreateString(row.facts.name),
                                         b.CreateString(row.facts.address), b.CreateString(row.facts.local_socket), row.facts.host_id,
                                         wire::NodeState(row.standing), row.weight));
  return wire::CreateClusterView(b, view.version(), term, b.CreateVector(nodes));
}

template <typename Table>
rpc::Message message(wire::Kind kind, wire::Builder& b, flatbuffers::Offset<Table> root) {
  return {.kind = kind, .body = wire::finish(b, root)};
}

}  // namespace millpond::master
