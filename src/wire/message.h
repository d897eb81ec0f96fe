// Building and reading FlatBuffers messages: the only file through which a room sees the generated header.
// Include it in .cc files, not in headers.
#pragma once
#include <flatbuffers/flatbuffers.h>

#include <cstring>
#include <span>
#include <vector>

#include "base/block_id.h"
#include "base/bytes.h"
#include "base/status.h"
#include "wire/messages_generated.h"

namespace millpond::wire {

using Builder = flatbuffers::FlatBufferBuilder;

// The finished message as owned bytes.
template <typename Table>
ByteVector finish(Builder& builder, flatbuffers::Offset<Table> root) {
  builder.Finish(root);
  auto* data = reinterpret_cast<const std::byte*>(builder.GetBufferPointer());
  return ByteVector(data, data + builder.GetSize());
}

// The root table inside `body`, verified: every offset lies inside. Lives as long as `body`.
// corrupt: not a message of this kind. Fields may be absent (null); vectors may have any length: check them.
template <typename Table>
Result<const Table*> parse(ByteSpan body) {
  flatbuffers::Verifier verifier(reinterpret_cast<const uint8_t*>(body.data()), body.size(), /*max_depth=*/16, /*max_tables=*/100'000);
  if (!verifier.VerifyBuffer<Table>(nullptr)) return error(Code::corrupt, "a message of {} bytes does not verify", body.size());
  return flatbuffers::GetRoot<Table>(body.data());
}

// BlockId and Id have the same 24 bytes.
inline const Id& id_of(const BlockId& id) { return reinterpret_cast<const Id&>(id); }
inline BlockId id_of(const Id& id) {
  BlockId result;
  std::memcpy(static_cast<void*>(&result), &id, sizeof result);
  return result;
}
static_assert(sizeof(Id) == sizeof(BlockId));

// A vector field as a span; empty when absent. The verifier checks that it lies inside the message, not that its elements
// are aligned: our builder aligns them, and what someone else made otherwise counts as absent (found by fuzz_frame).
template <typename T>
std::span<const T> span_at(const void* first, size_t count) {
  if (reinterpret_cast<uintptr_t>(first) % alignof(T) != 0) return {};
  return {static_cast<const T*>(first), count};
}
template <typename T>
std::span<const T> span_of(const flatbuffers::Vector<T>* vector) {
  return vector ? span_at<T>(vector->Data(), vector->size()) : std::span<const T>();
}
template <typename Struct>
std::span<const Struct> span_of(const flatbuffers::Vector<const Struct*>* vector) {
  return vector ? span_at<Struct>(vector->Data(), vector->size()) : std::span<const Struct>();
}
inline std::string_view text_of(const flatbuffers::String* text) { return text ? std::string_view(text->data(), text->size()) : std::string_view(); }

template <typename Struct>
auto structs(Builder& builder, std::span<const Struct> values) { return builder.CreateVectorOfStructs(values.data(), values.size()); }
inline auto ids(Builder& builder, std::span<const BlockId> values) {
  return builder.CreateVectorOfStructs(reinterpret_cast<const Id*>(values.data()), values.size());
}

}  // namespace millpond::wire
