#include "replay/json_cursor.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

namespace millpond::replay {

bool JsonCursor::fail(std::string_view what) {
  if (error_.empty()) error_ = fmt::format("{} at column {}", what, at_ + 1);
  return false;
}

char JsonCursor::peek() {
  while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\r' || text_[at_] == '\n')) ++at_;
  return at_ < text_.size() ? text_[at_] : 0;
}

bool JsonCursor::take(char c) {
  if (peek() != c) return fail(fmt::format("expected '{}'", c));
  ++at_;
  return true;
}

bool JsonCursor::at_end() { return ok() && peek() == 0 && at_ == text_.size(); }

bool JsonCursor::member(bool& first, std::string& name) {
  if (!ok()) return false;
  if (first && !take('{')) return false;
  if (peek() == '}') {
    ++at_;
    return false;
  }
  if (!first && !take(',')) return false;
  first = false;
  return string(name) && take(':');
}

bool JsonCursor::element(bool& first) {
  if (!ok()) return false;
  if (first && !take('[')) return false;
  if (peek() == ']') {
    ++at_;
    return false;
  }
  if (!first && !take(',')) return false;
  first = false;
  return true;
}

bool JsonCursor::string(std::string& value) {
  value.clear();
  if (!ok() || !take('"')) return false;
  while (at_ < text_.size() && text_[at_] != '"') {
    if (text_[at_] == '\\') {
      // Names of sessions are the only strings we keep; an escaped character stands for itself there.
      if (++at_ == text_.size()) break;
    }
    value += text_[at_++];
  }
  if (at_ == text_.size()) return fail("a string without its closing quote");
  ++at_;
  return true;
}

bool JsonCursor::number(double& value) {
  if (!ok()) return false;
  char first = peek();
  if (first != '-' && (first < '0' || first > '9')) return fail("expected a number");   // from_chars takes "nan" and "inf"
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  if (error != std::errc() || !std::isfinite(value)) return fail("expected a number");
  at_ = size_t(end - text_.data());
  return true;
}

bool JsonCursor::unsigned_integer(uint64_t& value) {
  if (!ok()) return false;
  peek();
  size_t start = at_;
  auto [end, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
  at_ = size_t(end - text_.data());
  bool fraction = error == std::errc() && at_ < text_.size() && (text_[at_] == '.' || text_[at_] == 'e' || text_[at_] == 'E');
  if (error == std::errc() && !fraction) return true;
  at_ = start;
  double real = 0;
  if (error == std::errc() && number(real) && real >= 0 && real < 0x1p63 && real == double(uint64_t(real))) {
    value = uint64_t(real);
    return true;
  }
  at_ = start;
  return fail("expected a whole number of 0 or more, below 2^64");
}

bool JsonCursor::skip() { return skip(0); }

bool JsonCursor::skip(int depth) {
  if (!ok()) return false;
  if (depth > kDepthMax) return fail("nested too deep");
  bool first = true;
  std::string text;
  double real;
  switch (peek()) {
    case '{':
      while (member(first, text))
        if (!skip(depth + 1)) return false;
      return ok();
    case '[':
      while (element(first))
        if (!skip(depth + 1)) return false;
      return ok();
    case '"': return string(text);
    default:
      for (std::string_view word : {"true", "false", "null"})
        if (text_.substr(at_, word.size()) == word) {
          at_ += word.size();
          return true;
        }
      return number(real);
  }
}

}  // namespace millpond::replay
