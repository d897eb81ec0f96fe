#include "memory/machine_memory.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string>

namespace millpond::memory {
namespace {

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::optional<uint64_t> number_at(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  uint64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<uint64_t> field(std::string_view text, std::string_view name) {
  for (size_t at = 0; at < text.size();) {
    auto line = text.substr(at, text.find('\n', at) - at);
    if (line.starts_with(name)) return number_at(line.substr(name.size()));
    at += line.size() + 1;
  }
  return std::nullopt;
}

// A group may not use more than any group above it.
std::optional<Bytes> tightest(const std::string& root, std::string path, const char* file) {
  std::optional<Bytes> limit;
  for (;;) {
    if (auto here = parse_group_limit(read_file(root + path + "/" + file))) limit = limit ? std::min(*limit, *here) : *here;
    auto slash = path.rfind('/');
    if (path.empty() || slash == std::string::npos) return limit;
    path.resize(slash);
  }
}

}  // namespace

std::optional<Bytes> parse_group_limit(std::string_view text) {
  auto value = number_at(text);
  if (!value || *value >= (1ull << 62)) return std::nullopt;
  return Bytes{*value};
}

MachineMemory parse_meminfo(std::string_view text) {
  MachineMemory memory{.available = {~0ull}};
  if (auto kib = field(text, "MemAvailable:")) memory.available = KiB(*kib);
  if (auto kib = field(text, "Hugepagesize:")) memory.huge_page_size = KiB(*kib);
  uint64_t free = field(text, "HugePages_Free:").value_or(0);
  memory.huge_pages_free = free - std::min(free, field(text, "HugePages_Rsvd:").value_or(0));
  return memory;
}

MachineMemory machine_memory() {
  auto memory = parse_meminfo(read_file("/proc/meminfo"));
  std::istringstream groups(read_file("/proc/self/cgroup"));   // lines of hierarchy:controllers:path
  auto consider = [&](std::optional<Bytes> limit) {
    if (limit) memory.group_limit = memory.group_limit ? std::min(*memory.group_limit, *limit) : *limit;
  };
  for (std::string line; std::getline(groups, line);) {
    auto first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    auto controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    auto path = line.substr(second + 1);
    if (path == "/") path.clear();
    if (controllers == ",,") consider(tightest("/sys/fs/cgroup", path, "memory.max"));
    if (controllers.find(",memory,") != std::string::npos) {
      consider(tightest("/sys/fs/cgroup/memory", path, "memory.limit_in_bytes"));
    }
  }
  return memory;
}

}  // namespace millpond::memory
