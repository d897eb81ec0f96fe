// What --help shows.
#pragma once
#include "command_line.h"

namespace millpond::apps {
std::string help_overview(const std::vector<Command>& commands);
std::string help(const Command& command, std::vector<config::Section>& tables);
}  // namespace millpond::apps
