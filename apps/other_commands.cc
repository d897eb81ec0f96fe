// replay, config.
#include <fmt/format.h>

#include "command_line.h"
#include "commands.h"
#include "replay/replay.h"

namespace millpond::apps {

int run_replay(Options& options, Words& words) {
  options.settle();
  if (!words.first.empty()) options.replay.trace = words.first[0];
  return replay::run(options.replay);
}

int run_config(Options& options, Words& words) {
  if (words.toml) fmt::print("{}", config::example_toml(options.tables));
  else if (words.markdown) fmt::print("{}", config::markdown(options.tables));
  else fmt::print("{}\n", config::json(options.tables));
  return kOk;
}

}  // namespace millpond::apps
