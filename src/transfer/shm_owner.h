// The way `shm`: the owner says where a block stands, the bytes are copied here, by this process.
#pragma once
#include <memory>

#include "base/metrics.h"
#include "rpc/runtime.h"
#include "transfer/owner.h"

namespace millpond::transfer {

// `peer`: "unix:/path" with the node id and epoch that must answer there.
std::shared_ptr<Owner> shm_owner(rpc::PeerAddress peer, rpc::Runtime& runtime, Metrics& metrics);

}  // namespace millpond::transfer
