#include "key_text.h"

#include <fmt/format.h>

namespace millpond::apps {
namespace {

constexpr size_t kShownMax = 80, kCutTo = 60;

uint8_t byte(char c) { return static_cast<uint8_t>(c); }

// Bytes of the UTF-8 character at the start of `text`; 0: it is none.
size_t character(std::string_view text) {
  uint8_t first = byte(text[0]);
  if (first < 0x80) return 1;
  size_t length = first >= 0xC2 && first < 0xE0 ? 2 : first >= 0xE0 && first < 0xF0 ? 3 : first >= 0xF0 && first < 0xF5 ? 4 : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if ((byte(text[i]) & 0xC0) != 0x80) return 0;
  uint8_t second = byte(text[1]);
  bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  bool surrogate = first == 0xED && second >= 0xA0, beyond = first == 0xF4 && second >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

}  // namespace

std::string shown(std::string_view key) {
  if (key.empty()) return "\"\"";
  std::string out;
  for (auto rest = key.size() <= kShownMax ? key : key.substr(0, kCutTo); !rest.empty();) {
    size_t length = character(rest);
    if (length == 0 || byte(rest[0]) < 0x20 || rest[0] == 0x7F) out += fmt::format("\\x{:02x}", byte(rest[0])), length = 1;
    else out += rest.substr(0, length);
    rest.remove_prefix(length);
  }
  return key.size() <= kShownMax ? out : fmt::format("{}… ({} bytes)", out, key.size());
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    size_t length = character(text);
    if (length == 0) out += fmt::format("\\udc{:02x}", byte(text[0])), length = 1;
    else if (text[0] == '"' || text[0] == '\\') out += '\\', out += text[0];
    else if (byte(text[0]) < 0x20) out += fmt::format("\\u{:04x}", byte(text[0]));
    else out += text.substr(0, length);
    text.remove_prefix(length);
  }
  return out + "\"";
}

}  // namespace millpond::apps
