// From argv, environment and millpond.toml to filled-in Options and the command to run. CLI11 stays in the .cc.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "config/settings.h"

namespace millpond::apps {

// What a process says when it ends; scripts rely on these.
enum Exit : int { kOk = 0, kMiss = 1, kUsage = 2, kUnreachable = 3 };

struct Argument {                          // by position: KEY, FILE
  std::string name;
  std::string about;
  std::vector<std::string>* values = nullptr;
  size_t count_min = 1, count_max = 1;
};
struct Flag {                              // of one command, not a setting: --json, -o FILE
  std::string names;                       // "-o,--output"
  std::string value_name;                  // "FILE"; empty: a switch, set("yes")
  std::string about;
  std::function<void(std::string)> set;
};
struct Command {
  std::string name;
  std::string about;                       // one sentence
  std::string example;                     // shown in --help
  std::vector<std::string> tables;         // whose settings are flags here: "node", or "rpc.tenant" alone. Of two with
                                           // the same name the first has the short flag, the other is --<table>-<name>
  std::vector<Argument> arguments;
  std::vector<Flag> flags;
  std::function<int()> run;                // answers the exit status
};

struct SettingFlag {                       // what a setting is called on the command line of one command
  std::string flag;                        // "--heartbeat-interval"
  config::Setting* setting;
  const config::Section* table;
};
// In the order of command.tables.
std::vector<SettingFlag> setting_flags(const Command& command, std::vector<config::Section>& tables);

// Settings: default, then the file of --config or MILLPOND_CONFIG, then the environment, then flags.
// What is wrong goes to stderr with what to do, and the answer is kUsage.
int run(const std::vector<Command>& commands, std::vector<config::Section>& tables, int argc, const char* const* argv);

}  // namespace millpond::apps
