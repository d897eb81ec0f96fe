// Where a node's Unix socket stands.
#pragma once
#include <string>

#include "base/id.h"
#include "base/status.h"

namespace millpond::node {
// The directory (made if it is not there, for this user alone) and a name of this node's own in it.
// invalid: cannot be made, belongs to somebody else, or the path is longer than a Unix socket's may be.
Result<std::string> make_socket_path(const std::string& directory, NodeId node_id, NodeEpoch epoch);
}  // namespace millpond::node
