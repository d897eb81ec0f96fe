// Goal: a trace is read as it stands, and a broken one says where and why.
// Method: small texts, good and bad; the project's own excerpt where the path is known.
#include "replay/trace.h"

#include <gtest/gtest.h>

#include <string>

namespace millpond::replay {
namespace {

std::string row(const char* members) { return std::string("{\"timestamp\": 5, ") + members + "}\n"; }

TEST(Trace, KeepsFullBlocksOnly) {
  auto trace = parse_trace(row("\"input_length\": 1500, \"output_length\": 7, \"hash_ids\": [3, 1, 4]"), "t");
  ASSERT_TRUE(trace) << trace.error().text();
  ASSERT_EQ(trace->turns.size(), 1u);
  EXPECT_EQ(trace->turns[0].blocks, (std::vector<uint64_t>{3, 1}));
  EXPECT_EQ(trace->turns[0].input_length, 1500u);
  EXPECT_EQ(trace->input_tokens(), 1500u);
}

TEST(Trace, SortsByTimeAndCountsTurnsPerSession) {
  auto trace = parse_trace(
      "{\"timestamp\": 20, \"input_length\": 512, \"hash_ids\": [1], \"session\": \"a\"}\n"
      "\n"
      "{\"timestamp\": 10.5, \"input_length\": 512, \"hash_ids\": [1], \"session\": \"b\", \"x\": {\"y\": [null, true, \"}\"]}}\r\n"
      "{\"timestamp\": 30, \"input_length\": 512, \"hash_ids\": [1], \"session\": \"b\"}",
      "t");
  ASSERT_TRUE(trace) << trace.error().text();
  ASSERT_EQ(trace->turns.size(), 3u);
  EXPECT_EQ(trace->sessions, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(trace->turns[0].session, 1u);
  EXPECT_EQ(trace->turns[1].session, 0u);
  EXPECT_EQ(trace->turns[2].session, 1u);
  EXPECT_EQ(trace->turns[2].turn, 1u);
  EXPECT_EQ(trace->unique_blocks(), 1u);
}

TEST(Trace, InfersSessionsFromPrefixes) {
  auto trace = parse_trace(row("\"input_length\": 1024, \"hash_ids\": [1, 2]") +         // a
                               row("\"input_length\": 1024, \"hash_ids\": [1, 9]") +     // another one with the same head
                               row("\"input_length\": 1536, \"hash_ids\": [1, 2, 3]") +  // continues a
                               row("\"input_length\": 1536, \"hash_ids\": [1, 9, 7]") +
                               row("\"input_length\": 100, \"hash_ids\": [8]"),
                           "t");
  ASSERT_TRUE(trace) << trace.error().text();
  EXPECT_EQ(trace->sessions.size(), 3u);
  EXPECT_EQ(trace->turns[2].session, trace->turns[0].session);
  EXPECT_EQ(trace->turns[3].session, trace->turns[1].session);
  EXPECT_EQ(trace->turns[3].turn, 1u);
  EXPECT_TRUE(trace->turns[4].blocks.empty());
}

TEST(Trace, SaysWhatIsWrongAndWhere) {
  struct Case {
    std::string text;
    std::string says;
  };
  std::string good = row("\"input_length\": 512, \"hash_ids\": [1]");
  for (const Case& c : {Case{"", "no requests"}, Case{good + "{\"timestamp\": 5, \"input_length\": 512, \"hash_ids\": [1", "line 2"},
                        Case{good + good + "[]", "line 3"}, Case{row("\"input_length\": 1024, \"hash_ids\": [1]"), "2 full blocks"},
                        Case{row("\"input_length\": -4, \"hash_ids\": []"), "whole number"},
                        Case{row("\"input_length\": 1e30, \"hash_ids\": []"), "whole number"},
                        Case{row("\"input_length\": 99999999999, \"hash_ids\": []"), "the most is"},
                        Case{"{\"timestamp\": nan, \"input_length\": 5, \"hash_ids\": []}", "expected a number"},
                        Case{"{\"timestamp\": Infinity, \"input_length\": 5, \"hash_ids\": []}", "expected a number"},
                        Case{row("\"hash_ids\": []"), "input_length"}, Case{row("\"input_length\": 5"), "hash_ids"},
                        Case{"{\"input_length\": 5, \"hash_ids\": [1]}", "timestamp"},
                        Case{good.substr(0, good.size() - 1) + " x\n", "after the end"},
                        Case{row("\"input_length\": 5, \"hash_ids\": [1], \"session\": \"a\"") + good, "all must, or none"},
                        Case{"{\"a\":" + std::string(100'000, '['), "deep"}}) {
    auto trace = parse_trace(c.text, "file.jsonl");
    ASSERT_FALSE(trace) << c.text.substr(0, 200);
    EXPECT_EQ(trace.error().code(), Code::invalid);
    EXPECT_NE(trace.error().message().find(c.says), std::string::npos) << trace.error().message();
    EXPECT_NE(trace.error().message().find("file.jsonl"), std::string::npos);
  }
}

TEST(Trace, AMissingOrPackedFileIsAnError) {
  auto missing = read_trace("/nonexistent/trace.jsonl");
  ASSERT_FALSE(missing);
  EXPECT_NE(missing.error().message().find("/nonexistent/trace.jsonl"), std::string::npos);
}

}  // namespace
}  // namespace millpond::replay
