// Return codes as Mooncake's Python API has them (types.h of mooncake-store 0.3.13): consumers compare these numbers.
#pragma once
#include <cstdint>

namespace millpond::mooncake {

enum class Code : int32_t {
  ok = 0,
  internal = -1,
  no_available_handle = -200,   // the pool is full of what may not leave
  invalid_key = -400,
  invalid_params = -600,
  replica_not_ready = -703,
  object_not_found = -704,
  transfer_fail = -800,
  checksum_mismatch = -801,
  rpc_fail = -900,
  rpc_timeout = -901,
  not_supported = -1012,
};

constexpr int32_t number(Code code) { return int32_t(code); }

}  // namespace millpond::mooncake
