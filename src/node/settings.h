// The settings of a node and of its DRAM tier: section [node].
#pragma once
#include "config/settings.h"
#include "node/node.h"

namespace millpond::node {
config::Section describe(Options& options);
}  // namespace millpond::node
