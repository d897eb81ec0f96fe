#include "command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "help.h"

namespace millpond::apps {
namespace {

int usage_error(const std::string& what, const std::string& command) {
  fmt::print(stderr, "millpond: {}\n", what);
  fmt::print(stderr, "`millpond{}{} --help` shows what there is.\n", command.empty() ? "" : " ", command);
  return kUsage;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known) {
  std::string near = config::nearest(word, known);
  return near.empty() ? "" : ": did you mean " + near + "?";
}

// Settings that a command line gave, in its order.
struct Given {
  std::string flag;
  config::Setting* setting;
  std::string value;
};

Status load_settings(std::string file, std::vector<config::Section>& tables, const std::vector<Given>& given) {
  const char* variable = std::getenv("MILLPOND_CONFIG");
  if (file.empty() && variable) file = variable;
  if (!file.empty()) MP_OK(config::load_toml(file, tables));
  MP_OK(config::load_environment(tables));
  for (auto& [flag, setting, value] : given)
    if (Status status = setting->set(value); !status.ok()) return Status(Code::invalid, "{}: {}", flag, status.message());
  return Status();
}

// CLI11 takes a word in brackets apart at its commas: `rm "[a,b]"` would remove a and b. A mark in front keeps it whole.
constexpr char kMark = 1;
std::string guarded(std::string word) { return word.starts_with('[') || word.starts_with(kMark) ? kMark + std::move(word) : word; }
std::string bare(std::string word) { return word.starts_with(kMark) ? word.substr(1) : word; }

int run_one(const Command& command, std::vector<config::Section>& tables, int argc, const char* const* argv) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  bool help_wanted = false;
  std::string config_file;
  std::vector<std::string> known{"--help", "--config"};
  app.add_flag("-h,--help", help_wanted);
  app.add_option("-c,--config", config_file);

  std::vector<std::pair<const Flag*, std::string>> flag_values(command.flags.size());
  for (size_t i = 0; i < command.flags.size(); ++i) {
    auto& flag = command.flags[i];
    flag_values[i].first = &flag;
    known.push_back(flag.names.substr(flag.names.find("--")));
    if (flag.value_name.empty()) app.add_flag_callback(flag.names, [&value = flag_values[i].second] { value = "yes"; });
    else app.add_option(flag.names, flag_values[i].second);
  }
  std::map<std::string, std::pair<config::Setting*, std::vector<std::string>>> setting_values;
  for (auto& [flag, setting, table] : setting_flags(command, tables)) {
    auto& slot = setting_values[flag];
    slot.first = setting;
    known.push_back(flag);
    app.add_option(flag, slot.second)->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  }
  std::vector<std::string> positionals;
  app.add_option("arguments", positionals);

  std::vector<std::string> words;
  std::vector<const char*> raw;
  for (int i = 0; i < argc; ++i) words.push_back(guarded(argv[i]));
  for (auto& word : words) raw.push_back(word.c_str());
  try {
    app.parse(argc, raw.data());
  } catch (const CLI::ParseError& e) {
    return usage_error(e.what(), command.name);
  }
  if (help_wanted) return fmt::print("{}", help(command, tables)), kOk;
  for (auto& extra : app.remaining())
    if (extra.size() > 1 && extra[0] == '-' && extra != "--") return usage_error(fmt::format("unknown flag {}{}", extra, did_you_mean(extra.substr(0, extra.find('=')), known)), command.name);

  for (auto& word : positionals) word = bare(word);
  size_t at = 0;
  for (auto& argument : command.arguments) {
    size_t left = positionals.size() - at;
    if (left < argument.count_min) return usage_error(fmt::format("{} is missing: {}", argument.name, argument.about), command.name);
    size_t take = std::min(left, argument.count_max);
    argument.values->assign(positionals.begin() + ptrdiff_t(at), positionals.begin() + ptrdiff_t(at + take));
    at += take;
  }
  if (at < positionals.size()) return usage_error(fmt::format("\"{}\" is one argument too many", positionals[at]), command.name);

  std::vector<Given> given;
  for (auto& [flag, slot] : setting_values)
    if (!slot.second.empty()) given.push_back({flag, slot.first, bare(slot.second.back())});
  if (Status status = load_settings(bare(config_file), tables, given); !status.ok()) return usage_error(status.message(), command.name);
  for (auto& [flag, value] : flag_values)
    if (!value.empty()) flag->set(bare(value));
  return command.run();
}

}  // namespace

std::vector<SettingFlag> setting_flags(const Command& command, std::vector<config::Section>& tables) {
  std::vector<SettingFlag> flags;
  std::set<std::string> taken;
  for (auto& wanted : command.tables)
    for (auto& table : tables)
      for (auto& setting : table.settings()) {
        if (wanted != table.name() && wanted != table.name() + "." + setting.name) continue;
        std::string flag = setting.name;
        if (!taken.insert(flag).second) flag = table.name() + "-" + flag;
        for (char& c : flag) c = c == '_' ? '-' : c;
        flags.push_back({"--" + flag, &setting, &table});
      }
  return flags;
}

int run(const std::vector<Command>& commands, std::vector<config::Section>& tables, int argc, const char* const* argv) {
  std::string word = argc > 1 ? argv[1] : "--help";
  if (word == "-h" || word == "--help" || word == "help") return fmt::print("{}", help_overview(commands)), kOk;
  if (word == "--version") word = "version";
  std::vector<std::string> known;
  for (auto& command : commands) {
    if (command.name == word) return run_one(command, tables, argc - 1, argv + 1);
    known.push_back(command.name);
  }
  return usage_error(fmt::format("there is no command {}{}", word, did_you_mean(word, known)), "");
}

}  // namespace millpond::apps
