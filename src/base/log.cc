#include "base/log.h"

#define SPDLOG_HEADER_ONLY
#define SPDLOG_FMT_EXTERNAL
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>

namespace millpond::log {
namespace {
Level level_at_start() {
  Level level = Level::info;
  if (const char* text = std::getenv("MILLPOND_LOG")) parse_level(text, level);
  return level;
}
std::atomic<Level>& current() {
  static std::atomic<Level> level{level_at_start()};
  return level;
}
std::mutex sink_mutex;
std::function<void(Level, std::string_view)>& sink() {
  static auto* taken = new std::function<void(Level, std::string_view)>;   // outlives every static destructor that logs
  return *taken;
}
spdlog::logger& stderr_logger() {
  static auto* logger = [] {
    auto* made = new spdlog::logger("millpond", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_level(spdlog::level::debug);
    made->set_pattern("%Y-%m-%d %H:%M:%S.%e %^%-5l%$ %v");
    return made;
  }();
  return *logger;
}
}  // namespace

void set_level(Level level) { current() = level; }
Level level() { return current().load(std::memory_order_relaxed); }

bool parse_level(std::string_view text, Level& level) {
  static constexpr std::string_view kNames[] = {"debug", "info", "warn", "error", "off"};
  for (int i = 0; i < 5; ++i)
    if (text == kNames[i]) return level = Level(i), true;
  return false;
}

void set_sink(std::function<void(Level, std::string_view)> taken) {
  std::lock_guard lock(sink_mutex);
  sink() = std::move(taken);
}

void write(Level level, std::string_view line) {
  {
    std::lock_guard lock(sink_mutex);
    if (sink()) return sink()(level, line);
  }
  static constexpr spdlog::level::level_enum kLevels[] = {spdlog::level::debug, spdlog::level::info, spdlog::level::warn, spdlog::level::err};
  stderr_logger().log(kLevels[int(level)], "{}", line);
}
}  // namespace millpond::log
