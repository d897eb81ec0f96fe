// Reads one JSON text from left to right, for callers that know which shape they expect. No tree is built.
// Every call answers false once something did not fit; error() then says what and at which column.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace millpond::replay {

class JsonCursor {
 public:
  explicit JsonCursor(std::string_view text) : text_(text) {}

  // Walks an object: while (cursor.member(first, name)) { read exactly one value }. `first` starts as true.
  bool member(bool& first, std::string& name);
  // Walks an array: while (cursor.element(first)) { read exactly one value }.
  bool element(bool& first);
  bool string(std::string& value);
  bool number(double& value);
  bool unsigned_integer(uint64_t& value);    // 0 … 2^64-1; 12.0 is taken as 12
  bool skip();                               // any value; nesting ≤ kDepthMax
  bool at_end();                             // nothing but blanks is left
  char peek();                               // next character that is not blank; 0 at the end

  bool ok() const { return error_.empty(); }
  const std::string& error() const { return error_; }

  static constexpr int kDepthMax = 64;

 private:
  bool fail(std::string_view what);
  bool take(char c);
  bool skip(int depth);

  std::string_view text_;
  size_t at_ = 0;
  std::string error_;
};

}  // namespace millpond::replay
