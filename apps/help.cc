#include "help.h"

#include <fmt/format.h>

namespace millpond::apps {
namespace {

// "  --flag TYPE            words that wrap at 100 columns and stay in their column"
std::string entry(const std::string& left, const std::string& words) {
  constexpr size_t kColumn = 34, kWidth = 100;
  std::string out = "  " + left;
  size_t at = out.size();
  if (at + 2 > kColumn) out += '\n', at = 0;
  out.append(kColumn - at, ' ');
  at = kColumn;
  for (size_t begin = 0; begin < words.size();) {
    size_t end = std::min(words.find(' ', begin), words.size());
    if (at + (end - begin) > kWidth && at > kColumn) {
      out.back() = '\n';
      out.append(kColumn, ' ');
      at = kColumn;
    }
    out += words.substr(begin, end - begin) + ' ';
    at += end - begin + 1;
    begin = end + 1;
  }
  out.back() = '\n';
  return out;
}

std::string value_name(const config::Setting& setting) {
  if (setting.type == "bytes") return "SIZE";
  if (setting.type == "duration") return "TIME";
  if (setting.type == "integer") return "N";
  if (setting.type == "fraction" || setting.type == "number") return "X";
  if (setting.type == "yes/no") return "yes|no";
  return "TEXT";
}

std::string usage(const Command& command) {
  std::string line = "millpond " + command.name;
  for (auto& argument : command.arguments) {
    std::string word = argument.name + (argument.count_max > 1 ? "…" : "");
    line += argument.count_min == 0 ? " [" + word + "]" : " " + word;
  }
  return line + " [flags]";
}

}  // namespace

std::string help_overview(const std::vector<Command>& commands) {
  std::string out = "millpond: one KV-cache pool for all engines of a cluster\n\nUsage: millpond COMMAND [flags]\n\nCommands\n";
  for (auto& command : commands) out += entry(command.name, command.about);
  out +=
      "\nThree terminals are a cluster:\n"
      "  millpond master\n"
      "  millpond node --memory 1GiB\n"
      "  echo hello | millpond put greeting - && millpond get greeting\n\n"
      "`millpond COMMAND --help` shows the flags. All of them can stand in a file (--config millpond.toml; `millpond config\n"
      "--toml` prints one with every setting) or in the environment (MILLPOND_NODE_MEMORY=64GiB).\n"
      "Exit status: 0 ok, 1 miss or not done, 2 wrong usage or setting, 3 cannot reach the cluster.\n";
  return out;
}

std::string help(const Command& command, std::vector<config::Section>& tables) {
  std::string out = command.about + "\n\nUsage: " + usage(command) + "\n";
  if (!command.example.empty()) out += "\nExample\n" + command.example;
  if (!command.arguments.empty()) {
    out += "\nArguments\n";
    for (auto& argument : command.arguments) out += entry(argument.name, argument.about);
  }
  out += "\nFlags\n";
  for (auto& flag : command.flags) {
    std::string names = flag.names;
    if (size_t comma = names.find(','); comma != std::string::npos) names.insert(comma + 1, " ");
    out += entry(names + (flag.value_name.empty() ? "" : " " + flag.value_name), flag.about);
  }
  out += entry("-c, --config FILE", "Settings in TOML; flags and environment go over them.");
  out += entry("-h, --help", "This text.");
  const config::Section* last = nullptr;
  for (auto& [flag, setting, table] : setting_flags(command, tables)) {
    if (table != last) out += fmt::format("\n[{}] {}\n", table->name(), table->about());
    last = table;
    std::string facts;
    if (!setting->default_text.empty()) facts += "default " + setting->default_text;
    if (!setting->range_text.empty()) facts += (facts.empty() ? "" : "; ") + setting->range_text;
    out += entry(flag + " " + value_name(*setting), setting->about + (facts.empty() ? "" : " (" + facts + ")"));
  }
  return out;
}

}  // namespace millpond::apps
