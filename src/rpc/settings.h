// The settings of this room: [rpc] in millpond.toml.
#pragma once
#include "config/settings.h"
#include "rpc/asio_runtime.h"

namespace millpond::rpc {
// `options` must outlive the section.
config::Section describe(AsioRuntime::Options& options);
}  // namespace millpond::rpc
