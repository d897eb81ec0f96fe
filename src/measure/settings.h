#pragma once
#include "config/settings.h"
#include "measure/bench.h"

namespace millpond::measure {
config::Section describe(Options& options);
}
