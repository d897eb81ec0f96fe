// Goal: whatever bytes a key has, a terminal stays as it is and JSON stays JSON. Method: keys that people would not choose.
#include "key_text.h"

#include <gtest/gtest.h>

namespace millpond::apps {
namespace {

TEST(KeyText, a_terminal_sees_no_control_bytes) {
  EXPECT_EQ(shown(""), "\"\"");
  EXPECT_EQ(shown("plain ü €"), "plain ü €");
  EXPECT_EQ(shown("a\nb\x1b[31m\x7f"), "a\\x0ab\\x1b[31m\\x7f");
  EXPECT_EQ(shown("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(shown(std::string(4097, 'k')), std::string(60, 'k') + "… (4097 bytes)");
}

TEST(KeyText, json_holds_any_bytes) {
  EXPECT_EQ(quoted("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\u000a\\u0001\"");
  EXPECT_EQ(quoted("ü€😀"), "\"ü€😀\"");
  EXPECT_EQ(quoted("\xff|\x80"), "\"\\udcff|\\udc80\"");
  EXPECT_EQ(quoted("\xed\xa0\x80\xc0\xaf\xe2\x82"), "\"\\udced\\udca0\\udc80\\udcc0\\udcaf\\udce2\\udc82\"") << "a surrogate, an overlong one, half a character";
  EXPECT_EQ(quoted(std::string_view("\0", 1)), "\"\\u0000\"");
}

}  // namespace
}  // namespace millpond::apps
