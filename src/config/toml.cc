// The one place that knows toml++ (it is 400 KB of templates).
#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <fstream>
#include <sstream>

#include "config/settings.h"

namespace millpond::config {
namespace {

// " did you mean …?" or, when nothing is near, what there is.
std::string hint(std::string_view word, const std::vector<std::string>& known, std::string_view plural) {
  if (std::string near = nearest(word, known); !near.empty()) return fmt::format("did you mean {}?", near);
  std::string all;
  for (auto& name : known) all += (all.empty() ? "" : ", ") + name;
  return fmt::format("known {} are {}", plural, all);
}

// What a value of TOML is as the text that a flag would carry; empty optional for what no setting takes.
std::optional<std::string> scalar(const toml::node& node) {
  if (auto* text = node.as_string()) return text->get();
  if (auto* number = node.as_integer()) return fmt::format("{}", number->get());
  if (auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (auto* flag = node.as_boolean()) return std::string(flag->get() ? "yes" : "no");
  return std::nullopt;
}

class Loader {
 public:
  Loader(std::string_view origin, std::vector<Section>& sections) : origin_(origin), sections_(sections) {}

  Status load(const toml::table& root) {
    std::vector<std::string> names;
    for (auto& section : sections_) names.push_back(section.name());
    for (auto& [key, node] : root) {
      const toml::table* table = node.as_table();
      if (!table && std::find(names.begin(), names.end(), key.str()) == names.end())
        return wrong(node, "\"{}\" stands outside of a table: {}", std::string(key.str()), home_of(key.str(), names));
      if (!table) return wrong(node, "{} is a table: write [{}] on a line of its own", key.str(), key.str());
      if (std::find(names.begin(), names.end(), key.str()) == names.end())
        return wrong(node, "unknown table [{}]: {}", key.str(), hint(key.str(), names, "tables"));
      MP_OK(load_table(key.str(), *table));
    }
    return Status();
  }

 private:
  template <typename... Args>
  Status wrong(const toml::node& node, fmt::format_string<Args...> text, Args&&... args) {
    return Status(Code::invalid, "{}:{}: {}", origin_, node.source().begin.line, fmt::format(text, std::forward<Args>(args)...));
  }

  Setting* find(std::string_view table, std::string_view key) {
    for (auto& section : sections_)
      if (section.name() == table)
        for (auto& setting : section.settings())
          if (setting.name == key) return &setting;
    return nullptr;
  }

  // A key that another table knows is in the wrong place rather than misspelt.
  std::string home_of(std::string_view key, const std::vector<std::string>& names) {
    for (auto& section : sections_)
      if (find(section.name(), key)) return fmt::format("it belongs under [{}]", section.name());
    return hint(key, names, "tables");
  }

  Status load_table(std::string_view table, const toml::table& values) {
    for (auto& [key, node] : values) {
      Setting* setting = find(table, key.str());
      if (!setting) {
        std::vector<std::string> known;
        for (auto& section : sections_)
          if (section.name() == table)
            for (auto& other : section.settings()) known.push_back(other.name);
        std::string advice = nearest(key.str(), known).empty() ? home_of(key.str(), known) : hint(key.str(), known, "settings");
        return wrong(node, "unknown setting {} in [{}]: {}", key.str(), table, advice);
      }
      auto text = scalar(node);
      if (!text) return wrong(node, "[{}] {}: a single value of type {} is wanted, not a list or table", table, key.str(), setting->type);
      if (Status status = setting->set(*text); !status.ok()) return wrong(node, "[{}] {}: {}", table, key.str(), status.message());
    }
    return Status();
  }

  std::string_view origin_;
  std::vector<Section>& sections_;
};

}  // namespace

Status load_toml_text(std::string_view text, std::string_view origin, std::vector<Section>& sections) {
  toml::parse_result parsed = toml::parse(text);
  if (!parsed)
    return Status(Code::invalid, "{}:{}: {}", origin, parsed.error().source().begin.line, parsed.error().description());
  return Loader(origin, sections).load(parsed.table());
}

Status load_toml(const std::string& path, std::vector<Section>& sections) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  if (!file || !(text << file.rdbuf()))
    return Status(Code::invalid, "cannot read the settings file {}: does it exist, and is it a file with something in it?", path);
  return load_toml_text(text.str(), path, sections);
}

}  // namespace millpond::config
