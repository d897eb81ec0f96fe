// The way `local`: a node in this process. Bytes are gathered straight into its pages and scattered straight out of
// them, hashed while they are copied, on the caller's thread.
#pragma once
#include <memory>

#include "transfer/owner.h"

namespace millpond::node {
struct Shared;
std::shared_ptr<transfer::Owner> make_local_owner(std::weak_ptr<Shared> shared);   // unavailable once the node has ended
}  // namespace millpond::node
