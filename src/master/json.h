// Writes JSON, one value after another; commas and escapes are its concern. Names and texts may be any bytes: what is
// not UTF-8 becomes '?'.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace millpond::master {

class Json {
 public:
  Json& open(char bracket);                // '{' or '['
  Json& close(char bracket);
  Json& key(std::string_view name);
  Json& value(std::string_view text);
  Json& value(const char* text) { return value(std::string_view(text)); }
  Json& value(uint64_t number);
  Json& value(double number);              // not finite: null
  Json& value(bool yes);
  template <typename Value>
  Json& field(std::string_view name, const Value& v) { return key(name).value(v); }
  const std::string& text() const { return text_; }

 private:
  void comma();
  void quoted(std::string_view text);
  std::string text_;
  bool first_ = true;
};

}  // namespace millpond::master
