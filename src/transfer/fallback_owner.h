// Two ways to one owner: the first while it works, else the second. The first is tried again after a while.
#pragma once
#include <memory>

#include "base/metrics.h"
#include "rpc/runtime.h"
#include "transfer/owner.h"

namespace millpond::transfer {

inline constexpr Duration kFallbackHeld = std::chrono::seconds(5);   // so long the first way rests after it failed

// Blocks that the first way answers with `unavailable` go over the second within the same deadline.
std::shared_ptr<Owner> fallback_owner(std::shared_ptr<Owner> first, std::shared_ptr<Owner> second, rpc::Runtime& runtime,
                                      Metrics& metrics);

}  // namespace millpond::transfer
