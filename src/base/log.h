// One line per change of state, for a person. Never per key, never per request.
// Level from MILLPOND_LOG (debug, info, warn, error, off; default info); lines go to stderr, or to a sink.
#pragma once
#include <fmt/core.h>

#include <functional>
#include <string>
#include <string_view>

namespace millpond::log {

enum class Level { debug, info, warn, error, off };

void set_level(Level level);
Level level();
bool parse_level(std::string_view text, Level& level);   // false: not a level's name
// Takes every line instead of stderr (the simulator stamps virtual time); nullptr: stderr again.
void set_sink(std::function<void(Level, std::string_view)> sink);
void write(Level level, std::string_view line);

template <typename... Args>
void debug(fmt::format_string<Args...> text, Args&&... args) {
  if (level() <= Level::debug) write(Level::debug, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void info(fmt::format_string<Args...> text, Args&&... args) {
  if (level() <= Level::info) write(Level::info, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void warn(fmt::format_string<Args...> text, Args&&... args) {
  if (level() <= Level::warn) write(Level::warn, fmt::format(text, std::forward<Args>(args)...));
}
template <typename... Args>
void error(fmt::format_string<Args...> text, Args&&... args) {
  if (level() <= Level::error) write(Level::error, fmt::format(text, std::forward<Args>(args)...));
}

}  // namespace millpond::log
