// The way `tcp`: blocks travel as the payload of Read and Store frames, straight between the socket and engine memory.
#pragma once
#include <memory>

#include "base/metrics.h"
#include "rpc/runtime.h"
#include "transfer/owner.h"

namespace millpond::transfer {

std::shared_ptr<Owner> tcp_owner(rpc::PeerAddress peer, rpc::Runtime& runtime, Metrics& metrics);

}  // namespace millpond::transfer
