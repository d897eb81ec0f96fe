// What a pointer is. A piece of engine memory that a block is gathered from or scattered to.
#pragma once
#include <cstdint>
#include <vector>

#include "base/bytes.h"

namespace millpond::memory {

enum class PieceKind : uint8_t { host };   // later: device (CUDA), registered for RDMA

// Owned by the caller; must stay mapped until the call that names it has ended.
using SourcePieces = std::vector<ByteSpan>;
using TargetPieces = std::vector<MutableByteSpan>;

}  // namespace millpond::memory
