// The settings of a client: section [client].
#pragma once
#include "client/client.h"
#include "config/settings.h"

namespace millpond::client {
config::Section describe(Options& options);   // `options` must outlive it
}  // namespace millpond::client
