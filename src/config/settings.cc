#include "config/settings.h"

#include <charconv>

namespace millpond::config {

// Exact, so that what is printed can be read back.
std::string exact_text(Bytes bytes) {
  static constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  uint64_t count = bytes.count;
  int unit = 0;
  while (count != 0 && count % 1024 == 0 && unit < 4) count /= 1024, ++unit;
  return fmt::format("{} {}", count, kUnits[unit]);
}

namespace {

using config::exact_text;
std::string exact_text(Duration duration) { return text(duration); }
std::string exact_text(size_t number) { return fmt::format("{}", number); }
std::string exact_text(double number) { return fmt::format("{}", number); }

Result<Bytes> parse(std::string_view text, Bytes*) { return parse_bytes(text); }
Result<Duration> parse(std::string_view text, Duration*) { return parse_duration(text); }
template <typename Number>
Result<Number> parse_number(std::string_view text, std::string_view what) {
  Number value{};
  auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (wrong != std::errc() || end != text.data() + text.size() || text.empty())
    return error(Code::invalid, "\"{}\" is not a {}", text, what);
  return value;
}
Result<size_t> parse(std::string_view text, size_t*) { return parse_number<size_t>(text, "whole number of 0 or more"); }
Result<double> parse(std::string_view text, double*) { return parse_number<double>(text, "number, like 0.5"); }

// A limit is for people: 2^41 - 1 bytes is "2.0 TiB".
std::string limit_text(Bytes bytes) { return bytes.count % 1024 && bytes > MiB(1) ? text(bytes) : exact_text(bytes); }
template <typename T>
std::string limit_text(T value) { return exact_text(value); }

template <typename T>
std::string range_text(const Range<T>& range, T lowest, T highest) {
  if (range.min == lowest && range.max == highest) return {};
  if (range.max == highest) return fmt::format("at least {}", limit_text(range.min));
  if (range.min == lowest) return fmt::format("at most {}", limit_text(range.max));
  return fmt::format("{} … {}", limit_text(range.min), limit_text(range.max));
}

template <typename T>
Setting ranged(std::string name, std::string type, T& field, std::string about, Range<T> range, T lowest, T highest) {
  Setting setting{.name = std::move(name), .type = std::move(type), .default_text = exact_text(field),
                  .range_text = range_text(range, lowest, highest), .about = std::move(about)};
  setting.set = [&field, range, allowed = setting.range_text](std::string_view text) {
    auto value = parse(text, static_cast<T*>(nullptr));
    if (!value) return std::move(value).error();
    if (!(*value >= range.min && *value <= range.max))   // also refuses a NaN
      return Status(Code::invalid, "{} is out of range: allowed is {}", exact_text(*value), allowed.empty() ? "any" : allowed);
    field = *value;
    return Status();
  };
  setting.get = [&field] { return exact_text(field); };
  return setting;
}

}  // namespace

Section::Section(std::string name, std::string about) : name_(std::move(name)), about_(std::move(about)) {}

Section& Section::add(std::string name, Bytes& field, std::string about, Range<Bytes> range) {
  settings_.push_back(ranged<Bytes>(std::move(name), "bytes", field, std::move(about), range, Bytes{0}, Bytes{~0ull}));
  return *this;
}
Section& Section::add(std::string name, Duration& field, std::string about, Range<Duration> range) {
  settings_.push_back(ranged<Duration>(std::move(name), "duration", field, std::move(about), range, Duration(0), Duration::max()));
  return *this;
}
Section& Section::add(std::string name, size_t& field, std::string about, Range<size_t> range) {
  settings_.push_back(ranged<size_t>(std::move(name), "integer", field, std::move(about), range, 0, ~size_t(0)));
  return *this;
}
Section& Section::add(std::string name, double& field, std::string about, Range<double> range) {
  // Numbers are always shown with their range: "0 … 1" is the only hint that a fraction is not a percentage.
  settings_.push_back(ranged<double>(std::move(name), range.max <= 1 ? "fraction" : "number", field, std::move(about), range, -1, -1));
  return *this;
}

Section& Section::add(std::string name, bool& field, std::string about) {
  auto set = [&field](std::string_view text) {
    for (std::string_view yes : {"yes", "true", "on", "1"})
      if (text == yes) return field = true, Status();
    for (std::string_view no : {"no", "false", "off", "0"})
      if (text == no) return field = false, Status();
    return Status(Code::invalid, "\"{}\" is neither yes nor no", text);
  };
  return add_parsed(std::move(name), "yes/no", std::move(about), set, [&field] { return std::string(field ? "yes" : "no"); });
}

Section& Section::add(std::string name, std::string& field, std::string about) {
  auto set = [&field](std::string_view text) { return field = text, Status(); };
  return add_parsed(std::move(name), "text", std::move(about), set, [&field] { return field; });
}

Section& Section::add_secret(std::string name, std::string& field, std::string about) {
  auto set = [&field](std::string_view text) { return field = text, Status(); };
  // The value never leaves through get(): whatever prints settings cannot print a secret.
  add_parsed(std::move(name), "text", std::move(about), set, [&field] { return std::string(field.empty() ? "" : "(set)"); });
  settings_.back().secret = true;
  settings_.back().default_text.clear();   // an example file must not suggest "(set)" as a value
  return *this;
}

Section& Section::add_parsed(std::string name, std::string type, std::string about, std::function<Status(std::string_view)> set,
                             std::function<std::string()> get) {
  std::string now = get();
  settings_.push_back({.name = std::move(name), .type = std::move(type), .default_text = std::move(now), .range_text = {},
                       .about = std::move(about), .secret = false, .set = std::move(set), .get = std::move(get)});
  return *this;
}

}  // namespace millpond::config
