// Keys and other bytes from outside, for a terminal and for JSON.
#pragma once
#include <string>
#include <string_view>

namespace millpond::apps {
// For a person: "" when empty, cut when long, control bytes as \x0a, so that a key cannot move the cursor.
std::string shown(std::string_view key);
// A JSON string. Keys are bytes and JSON is UTF-8: a byte that is not becomes \udc80 … \udcff, from which Python's
// "surrogateescape" makes the same byte again.
std::string quoted(std::string_view text);
}  // namespace millpond::apps
