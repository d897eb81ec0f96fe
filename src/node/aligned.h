// Vectors out of a peer's message, copied: the verifier checks that they lie inside, not that they are aligned.
// For .cc files.
#pragma once
#include <cstring>
#include <type_traits>
#include <vector>

#include "wire/message.h"

namespace millpond::node {

// Target: the same bytes under our own type (BlockId for wire::Id); by default the type in the message.
template <typename Target = void, typename Element>
auto aligned(const flatbuffers::Vector<Element>* vector) {
  using Inside = std::remove_cv_t<std::remove_pointer_t<Element>>;
  using Type = std::conditional_t<std::is_void_v<Target>, Inside, Target>;
  static_assert(sizeof(Type) == sizeof(Inside) && std::is_trivially_copyable_v<Type>);
  std::vector<Type> copy(vector ? vector->size() : 0);
  if (!copy.empty()) std::memcpy(static_cast<void*>(copy.data()), vector->Data(), copy.size() * sizeof(Type));
  return copy;
}

}  // namespace millpond::node
