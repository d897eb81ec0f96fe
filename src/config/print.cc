// What settings look like on paper: the example file, the page of docs, the answer of /config.
#include "config/settings.h"

namespace millpond::config {
namespace {

std::string escaped(std::string_view text) {   // JSON and basic TOML strings escape alike
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\', out += c;
    else if (c == '\n') out += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) out += fmt::format("\\u{:04x}", unsigned(c));
    else out += c;
  }
  return out;
}

bool is_number(const Setting& setting) { return setting.type == "integer" || setting.type == "fraction" || setting.type == "number"; }

std::string value_text(const Setting& setting, std::string_view value) {
  if (setting.type == "yes/no") return value == "yes" ? "true" : "false";
  if (is_number(setting)) return std::string(value);
  return fmt::format("\"{}\"", escaped(value));
}

std::string upper(std::string text) {
  for (char& c : text) c = c == '-' ? '_' : (c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c);
  return text;
}
std::string flag(std::string name) {
  for (char& c : name) c = c == '_' ? '-' : c;
  return "--" + name;
}
std::string cell(std::string_view text) {   // a bar would end the cell
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

std::string example_toml(const std::vector<Section>& sections) {
  std::string out =
      "# Every setting of millpond with its default. Take away the \"#\" of what you change.\n"
      "# A flag (--memory 64GiB) goes over an environment variable (MILLPOND_NODE_MEMORY=64GiB), and that over this file.\n"
      "# Sizes: 64GiB, 512MiB, 1.5GB. Durations: 250ms, 10s, 2min.\n";
  for (auto& section : sections) {
    out += fmt::format("\n# {}\n[{}]\n", section.about(), section.name());
    for (auto& setting : section.settings()) {
      out += fmt::format("# {} ({}{}{})\n", setting.about, setting.type, setting.range_text.empty() ? "" : ", ", setting.range_text);
      out += fmt::format("#{} = {}\n", setting.name, value_text(setting, setting.default_text));
    }
  }
  return out;
}

std::string markdown(const std::vector<Section>& sections) {
  std::string out =
      "# Settings\n\n"
      "Printed by `millpond config --markdown`; do not edit. A flag goes over an environment variable, and that over the\n"
      "file given with `--config` (example: [millpond.toml](../millpond.toml)).\n";
  for (auto& section : sections) {
    out += fmt::format("\n## [{}]\n\n{} Environment: `MILLPOND_{}_…`.\n\n", section.name(), section.about(), upper(section.name()));
    out += "| setting | flag | type | default | allowed | what it is |\n|---|---|---|---|---|---|\n";
    for (auto& setting : section.settings())
      out += fmt::format("| `{}` | `{}` | {} | {} | {} | {} |\n", setting.name, flag(setting.name), setting.type,
                         setting.default_text.empty() ? "–" : "`" + cell(setting.default_text) + "`",
                         setting.range_text.empty() ? "any" : cell(setting.range_text), cell(setting.about));
  }
  return out;
}

std::string json(const std::vector<Section>& sections) {
  std::string out = "{";
  for (size_t i = 0; i < sections.size(); ++i) {
    out += fmt::format("{}\"{}\":{{", i ? "," : "", escaped(sections[i].name()));
    auto& settings = sections[i].settings();
    for (size_t k = 0; k < settings.size(); ++k) {
      // Whatever get() of a secret says, only whether it is set goes out.
      std::string now = settings[k].get();
      if (settings[k].secret) now = now.empty() ? "" : "(set)";
      out += fmt::format("{}\"{}\":{}", k ? "," : "", escaped(settings[k].name), value_text(settings[k], now));
    }
    out += "}";
  }
  return out + "}";
}

}  // namespace millpond::config
