#include "measure/settings.h"

#include <charconv>

namespace millpond::measure {
namespace {

std::vector<std::string> split(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (part.starts_with(' ')) part.remove_prefix(1);
    while (part.ends_with(' ')) part.remove_suffix(1);
    parts.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

template <typename List, typename Text>
std::string join(const List& list, Text text_of) {
  std::string out;
  for (auto& item : list) out += (out.empty() ? "" : ",") + text_of(item);
  return out;
}

}  // namespace

config::Section describe(Options& o) {
  config::Section s("bench", "What `millpond bench` measures; lists are separated by commas.");
  s.add_parsed(
      "transports", "list", "Ways to the owner, each measured alone: local (memory of this process), shm (same host), tcp.",
      [&o](std::string_view text) {
        auto list = split(text);
        for (auto& name : list)
          if (name != "local" && name != "shm" && name != "tcp") return Status(Code::invalid, "\"{}\" is not a transport: local, shm or tcp", name);
        if (list.empty()) return Status(Code::invalid, "empty: name at least one of local, shm, tcp");
        return o.transports = std::move(list), Status();
      },
      [&o] { return join(o.transports, [](auto& name) { return name; }); });
  s.add_parsed(
      "blocks", "list of bytes", "Sizes of a block, 1 B … 1 GiB each.",
      [&o](std::string_view text) {
        std::vector<Bytes> list;
        for (auto& part : split(text)) {
          auto size = config::parse_bytes(part);
          if (!size) return std::move(size).error();
          if (*size < Bytes{1} || *size > GiB(1)) return Status(Code::invalid, "{} is out of range: allowed is 1 B … 1 GiB", millpond::text(*size));
          list.push_back(*size);
        }
        if (list.empty()) return Status(Code::invalid, "empty: name at least one size, like 64KiB,2MiB");
        return o.blocks = std::move(list), Status();
      },
      [&o] { return join(o.blocks, [](Bytes size) { return config::exact_text(size); }); });
  s.add_parsed(
      "concurrency", "list of integers", "Threads that call at once, 1 … 256 each.",
      [&o](std::string_view text) {
        std::vector<size_t> list;
        for (auto& part : split(text)) {
          size_t n = 0;
          auto [end, wrong] = std::from_chars(part.data(), part.data() + part.size(), n);
          if (wrong != std::errc() || end != part.data() + part.size() || n < 1 || n > 256)
            return Status(Code::invalid, "\"{}\" is out of range: allowed are whole numbers 1 … 256", part);
          list.push_back(n);
        }
        if (list.empty()) return Status(Code::invalid, "empty: name at least one number, like 1,4");
        return o.concurrency = std::move(list), Status();
      },
      [&o] { return join(o.concurrency, [](size_t n) { return fmt::format("{}", n); }); });
  s.add("working_set", o.working_set, "Bytes stored and loaded at random per row, removed afterwards; a smaller pool evicts other blocks for it.", {MiB(1), GiB(1024)});
  s.add("time", o.time, "How long loads are measured per row.", {std::chrono::milliseconds(10), std::chrono::minutes(10)});
  return s;
}

}  // namespace millpond::measure
