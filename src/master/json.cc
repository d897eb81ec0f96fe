#include "master/json.h"

#include <fmt/format.h>

#include <cmath>

namespace millpond::master {
namespace {
// Bytes of the UTF-8 character at the start of `text`; 0: not one.
size_t utf8_length(std::string_view text) {
  auto byte = [&](size_t i) { return uint8_t(text[i]); };
  size_t length = byte(0) < 0x80 ? 1 : (byte(0) >> 5) == 6 ? 2 : (byte(0) >> 4) == 14 ? 3 : (byte(0) >> 3) == 30 ? 4 : 0;
  if (!length || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(i) >> 6) != 2) return 0;
  bool too_long = (length == 2 && byte(0) < 0xC2) || (length == 3 && byte(0) == 0xE0 && byte(1) < 0xA0) || (length == 4 && byte(0) == 0xF0 && byte(1) < 0x90);
  bool no_character = (length == 3 && byte(0) == 0xED && byte(1) >= 0xA0) || (length == 4 && (byte(0) > 0xF4 || (byte(0) == 0xF4 && byte(1) >= 0x90)));
  return too_long || no_character ? 0 : length;
}
}  // namespace

void Json::comma() {
  if (!first_) text_ += ',';
  first_ = false;
}

void Json::quoted(std::string_view text) {
  text_ += '"';
  while (!text.empty()) {
    size_t length = utf8_length(text);
    char c = text[0];
    if (length == 0) {
      text_ += '?';
      length = 1;
    } else if (c == '"' || c == '\\') {
      text_ += '\\';
      text_ += c;
    } else if (uint8_t(c) < 0x20 || c == 0x7F) {
      text_ += fmt::format("\\u{:04x}", unsigned(uint8_t(c)));
    } else {
      text_ += text.substr(0, length);
    }
    text.remove_prefix(length);
  }
  text_ += '"';
}

Json& Json::open(char bracket) {
  comma();
  text_ += bracket;
  first_ = true;
  return *this;
}
Json& Json::close(char bracket) {
  text_ += bracket;
  first_ = false;
  return *this;
}
Json& Json::key(std::string_view name) {
  comma();
  quoted(name);
  text_ += ':';
  first_ = true;
  return *this;
}
Json& Json::value(std::string_view text) {
  comma();
  quoted(text);
  return *this;
}
Json& Json::value(uint64_t number) {
  comma();
  text_ += fmt::format("{}", number);
  return *this;
}
Json& Json::value(double number) {
  comma();
  text_ += std::isfinite(number) ? fmt::format("{:.6g}", number) : "null";
  return *this;
}
Json& Json::value(bool yes) {
  comma();
  text_ += yes ? "true" : "false";
  return *this;
}

}  // namespace millpond::master
