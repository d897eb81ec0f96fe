// The tier's settings, stated once (config/settings.h).
#pragma once
#include "config/settings.h"
#include "tier/dram_tier.h"

namespace millpond::tier {

config::Section describe(DramTier::Options& options);   // section [dram]; `options` must outlive it

}  // namespace millpond::tier
