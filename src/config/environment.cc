#include <cctype>
#include <string>

#include "base/log.h"
#include "config/settings.h"

extern char** environ;

namespace millpond::config {
namespace {
std::string variable(const Section& section, const Setting& setting) {
  std::string name = "MILLPOND_" + section.name() + "_" + setting.name;
  for (char& c : name) c = c == '-' ? '_' : char(std::toupper(static_cast<unsigned char>(c)));
  return name;
}
}  // namespace

Status load_environment(std::vector<Section>& sections) {
  std::vector<std::string> known, prefixes;
  for (auto& section : sections) {
    prefixes.push_back(variable(section, {}));
    for (auto& setting : section.settings()) {
      known.push_back(variable(section, setting));
      std::string heard = known.back();
      const char* value = std::getenv(heard.c_str());
      if (!value && !setting.variable.empty()) heard = setting.variable, value = std::getenv(heard.c_str());
      if (!value) continue;
      if (Status status = setting.set(value); !status.ok())
        return Status(Code::invalid, "environment variable {}: {}", heard, status.message());
    }
  }
  // An unknown variable is a warning, never an error: Kubernetes names variables after a service called "millpond-node".
  for (char** entry = environ; *entry; ++entry) {
    std::string_view whole(*entry);
    std::string name(whole.substr(0, whole.find('=')));   // perhaps none: whoever starts us may pass anything
    bool ours = false;
    for (auto& prefix : prefixes) ours |= name.starts_with(prefix);
    for (auto& other : known) ours &= other != name;
    if (!ours) continue;
    if (std::string near = nearest(name, known); !near.empty())
      log::warn("environment variable {} is not a setting: did you mean {}?", name, near);
  }
  return Status();
}

}  // namespace millpond::config
