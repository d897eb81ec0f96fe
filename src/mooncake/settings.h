// What an operator may set of the drop-in: MILLPOND_MOONCAKE_<NAME>, or "millpond": {"<name>": …} in the file that
// MOONCAKE_CONFIG_PATH names.
#pragma once
#include "base/time.h"
#include "config/settings.h"

namespace millpond::mooncake {

struct Settings {
  Duration open_deadline = std::chrono::seconds(5);
  Duration lookup_deadline = std::chrono::milliseconds(250);
  Duration move_deadline = std::chrono::seconds(1);          // load and store: this + bytes / move_rate
  Bytes move_rate{100'000'000};                              // per second
  bool promise_memory = true;                                // answer repeated lookups from what owners have promised
  size_t promise_memory_max = 1 << 18;                       // keys
  size_t prefix_order_max = 1 << 18;                         // keys whose predecessor is remembered
};

config::Section describe(Settings& settings);
Settings settings_from_environment();

}  // namespace millpond::mooncake
