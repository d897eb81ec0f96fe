// [master] in millpond.toml.
#pragma once
#include "config/settings.h"
#include "master/master.h"

namespace millpond::master {
config::Section describe(Options& options);
}
