// Goal: a setting is stated once, and every wrong value is refused with the value and what is allowed.
// Method: tables over a made-up section; texts in, texts out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "base/log.h"
#include "config/settings.h"

namespace millpond::config {
namespace {
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::HasSubstr;

struct Options {
  Bytes memory = GiB(1);
  Duration interval = milliseconds(1500);
  size_t queue = 16;
  double watermark = 0.95;
  bool hugepages = true;
  std::string name = "a \"b\"";
  std::string key;
  std::string color = "blue";
};

std::vector<Section> sections(Options& o) {
  Section node("node", "One machine's share.");
  node.add("memory", o.memory, "DRAM for blocks.", {MiB(8), GiB(64)})
      .add("heartbeat_interval", o.interval, "How often.", {milliseconds(10), Duration::max()})
      .add("queue_depth", o.queue, "How many | wait.", {1, 100})
      .add("watermark", o.watermark, "When to evict.")
      .add("hugepages", o.hugepages, "Try hugepages.")
      .add("name", o.name, "For people.");
  Section cluster("cluster", "Who belongs together.");
  cluster.add_secret("key", o.key, "Shared by all.");
  cluster.add_parsed(
      "color", "color", "Of the lamp.",
      [&o](std::string_view text) {
        if (text != "blue" && text != "red") return Status(Code::invalid, "\"{}\" is no color: blue or red", text);
        o.color = text;
        return Status();
      },
      [&o] { return o.color; });
  return {node, cluster};
}

TEST(Sizes, read_as_people_write_them) {
  struct { const char* text; uint64_t count; } table[] = {
      {"0", 0}, {"4096", 4096}, {"64GiB", 64ull << 30}, {"1.5 MB", 1'500'000}, {"1.5MiB", 3 << 19}, {"2 kib", 2048},
      {"7B", 7}, {"18446744073709551615", ~0ull}, {"1TiB", 1ull << 40}};
  for (auto& row : table) {
    auto bytes = parse_bytes(row.text);
    ASSERT_TRUE(bytes) << row.text;
    EXPECT_EQ(bytes->count, row.count) << row.text;
  }
  for (auto* text : {"", " ", "-1", "+1", "nan", "inf", "1.2.3", "64G", "1 parsec", "1e9", "0x10", "18446744073709551616", "99999999TiB", "1GiB "}) {
    auto bytes = parse_bytes(text);
    ASSERT_FALSE(bytes) << text;
    EXPECT_EQ(bytes.error().code(), Code::invalid);
    EXPECT_THAT(bytes.error().message(), AllOf(HasSubstr(std::string("\"") + text + "\""), HasSubstr("GiB")));
  }
}

TEST(Durations, read_and_print_the_same) {
  struct { const char* in; Duration duration; const char* out; } table[] = {
      {"250ms", milliseconds(250), "250 ms"}, {"1s", seconds(1), "1 s"}, {"2 min", minutes(2), "2 min"}, {"1.5s", milliseconds(1500), "1500 ms"},
      {"24h", hours(24), "24 h"}, {"10us", Duration(10'000), "10 us"}, {"7ns", Duration(7), "7 ns"}, {"0", Duration(0), "0 s"}, {"90s", seconds(90), "90 s"}};
  for (auto& row : table) {
    auto duration = parse_duration(row.in);
    ASSERT_TRUE(duration) << row.in;
    EXPECT_EQ(*duration, row.duration) << row.in;
    EXPECT_EQ(text(row.duration), row.out);
    EXPECT_EQ(parse_duration(text(row.duration)), row.duration);
  }
  for (auto* text : {"", "5", "-1s", "1 fortnight", "9999999999h", "1s2"}) {
    auto duration = parse_duration(text);
    ASSERT_FALSE(duration) << text;
    EXPECT_THAT(duration.error().message(), AllOf(HasSubstr(text), HasSubstr("ms")));
  }
}

TEST(Nearest, finds_what_was_meant_and_says_nothing_when_nothing_is_near) {
  std::vector<std::string> known{"memory", "listen", "heartbeat_interval", "name"};
  struct { const char* word; const char* found; } table[] = {
      {"memroy", "memory"}, {"Memory", "memory"}, {"lisen", "listen"}, {"hartbeat_intervall", "heartbeat_interval"},
      {"heartbeat", "heartbeat_interval"}, {"nmae", "name"}, {"zzzzzz", ""}, {"", ""}, {"x", ""}};
  for (auto& row : table) EXPECT_EQ(nearest(row.word, known), row.found) << row.word;
  EXPECT_EQ(nearest(std::string(100'000, 'm'), known), "");
  EXPECT_EQ(nearest("memory", {}), "");
}

TEST(Setting, refuses_what_is_out_of_range_and_keeps_the_value) {
  Options o;
  auto all = sections(o);
  auto set = [&](size_t section, const std::string& name, std::string_view text) {
    for (auto& setting : all[section].settings())
      if (setting.name == name) return setting.set(text);
    return Status(Code::internal);
  };
  EXPECT_TRUE(set(0, "memory", "8MiB").ok());
  EXPECT_EQ(o.memory, MiB(8));
  struct { const char* name; const char* text; const char* value; const char* allowed; } table[] = {
      {"memory", "4MiB", "4 MiB", "8 MiB … 64 GiB"},  {"memory", "1TiB", "1 TiB", "8 MiB … 64 GiB"},
      {"heartbeat_interval", "1ms", "1 ms", "at least 10 ms"}, {"queue_depth", "0", "0", "1 … 100"},
      {"queue_depth", "-1", "-1", "whole number"},    {"queue_depth", "3.5", "3.5", "whole number"},
      {"watermark", "95", "95", "0 … 1"},             {"watermark", "nan", "nan", "0 … 1"},
      {"watermark", "high", "high", "number"},        {"hugepages", "maybe", "maybe", "yes"}};
  for (auto& row : table) {
    Status status = set(0, row.name, row.text);
    EXPECT_EQ(status.code(), Code::invalid) << row.name << " " << row.text;
    EXPECT_THAT(status.message(), AllOf(HasSubstr(row.value), HasSubstr(row.allowed))) << row.name;
  }
  EXPECT_EQ(o.memory, MiB(8));
  EXPECT_EQ(o.queue, 16u);
  EXPECT_EQ(o.watermark, 0.95);
}

TEST(Toml, values_of_every_type) {
  Options o;
  auto all = sections(o);
  auto status = load_toml_text(R"(
    [node]
    memory = "2GiB"
    heartbeat_interval = "2s"
    queue_depth = 7
    watermark = 0.5
    hugepages = false
    name = "n1"
    [cluster]
    key = "sesame"
    color = "red")", "test.toml", all);
  ASSERT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(o.memory, GiB(2));
  EXPECT_EQ(o.interval, seconds(2));
  EXPECT_EQ(o.queue, 7u);
  EXPECT_EQ(o.watermark, 0.5);
  EXPECT_FALSE(o.hugepages);
  EXPECT_EQ(o.name, "n1");
  EXPECT_EQ(o.key, "sesame");
  EXPECT_EQ(o.color, "red");
}

TEST(Toml, says_what_is_wrong_and_where) {
  struct { const char* text; std::vector<const char*> says; } table[] = {
      {"[node]\nmemroy = 1", {"test.toml:2", "memroy", "did you mean memory?"}},
      {"[noed]\nmemory = 1", {"test.toml:1", "[noed]", "did you mean node?"}},
      {"[elephant]", {"[elephant]", "known tables are node, cluster"}},
      {"memory = \"1GiB\"", {"test.toml:1", "memory", "[node]"}},
      {"node = 7", {"write [node]"}},
      {"[cluster]\nmemory = \"1GiB\"", {"[cluster]", "belongs under [node]"}},
      {"[node]\nmemory = \"1MiB\"", {"test.toml:2", "[node] memory", "1 MiB", "8 MiB … 64 GiB"}},
      {"[node]\nheartbeat_interval = 5", {"\"5\"", "250ms"}},
      {"[node]\nmemory = [1, 2]", {"memory", "single value", "bytes"}},
      {"[node.memory]\nx = 1", {"memory", "single value"}},
      {"[cluster]\ncolor = \"green\"", {"color", "green", "blue or red"}},
      {"[node\nmemory = 1", {"test.toml:1"}},
      {"[node]\nmemory = 1\nmemory = 2", {"test.toml"}}};
  for (auto& row : table) {
    Options o;
    auto all = sections(o);
    Status status = load_toml_text(row.text, "test.toml", all);
    EXPECT_EQ(status.code(), Code::invalid) << row.text;
    for (auto* part : row.says) EXPECT_THAT(status.message(), HasSubstr(part)) << row.text;
  }
}

TEST(Toml, a_file_that_cannot_be_read) {
  Options o;
  auto all = sections(o);
  for (auto* path : {"/nonexistent/millpond.toml", "/"}) {
    Status status = load_toml(path, all);
    EXPECT_EQ(status.code(), Code::invalid);
    EXPECT_THAT(status.message(), HasSubstr(path));
  }
}

TEST(Environment, sets_and_refuses) {
  std::string logged;
  log::set_sink([&](log::Level, std::string_view line) { logged += line; });
  setenv("MILLPOND_NODE_MEMORY", "16MiB", 1);
  setenv("MILLPOND_NODE_MEMROY", "16MiB", 1);
  setenv("MILLPOND_NODE_SERVICE_PORT_XYZ", "tcp://10.0.0.1", 1);
  Options o;
  auto all = sections(o);
  EXPECT_TRUE(load_environment(all).ok());
  EXPECT_EQ(o.memory, MiB(16));
  EXPECT_THAT(logged, HasSubstr("MILLPOND_NODE_MEMROY is not a setting: did you mean MILLPOND_NODE_MEMORY?"));
  setenv("MILLPOND_NODE_MEMORY", "16 furlongs", 1);
  Status status = load_environment(all);
  EXPECT_THAT(status.message(), AllOf(HasSubstr("MILLPOND_NODE_MEMORY"), HasSubstr("16 furlongs")));
  for (auto* name : {"MILLPOND_NODE_MEMORY", "MILLPOND_NODE_MEMROY", "MILLPOND_NODE_SERVICE_PORT_XYZ"}) unsetenv(name);
  log::set_sink(nullptr);
}

TEST(Environment, a_second_variable_goes_over_the_file_and_under_the_first) {
  Options o;
  auto all = sections(o);
  all[1].settings()[0].variable = "MILLPOND_KEY";
  setenv("MILLPOND_KEY", "second", 1);
  EXPECT_TRUE(load_toml_text("[cluster]\nkey = \"file\"\n", "t", all).ok());
  EXPECT_TRUE(load_environment(all).ok());
  EXPECT_EQ(o.key, "second");
  setenv("MILLPOND_CLUSTER_KEY", "first", 1);
  EXPECT_TRUE(load_environment(all).ok());
  EXPECT_EQ(o.key, "first");
  for (auto* name : {"MILLPOND_KEY", "MILLPOND_CLUSTER_KEY"}) unsetenv(name);
}

TEST(Environment, an_entry_without_a_value_does_no_harm) {
  char odd[] = "MILLPOND_NODE_MEMORY", set[] = "MILLPOND_NODE_QUEUE_DEPTH=32";
  char* entries[] = {odd, set, nullptr};   // whoever starts us may pass anything
  char** former = std::exchange(environ, entries);
  Options o;
  auto all = sections(o);
  EXPECT_TRUE(load_environment(all).ok());
  environ = former;
  EXPECT_EQ(o.queue, 32u);
}

TEST(Print, the_example_file_with_its_marks_taken_away_reads_back) {
  Options o;
  auto all = sections(o);
  std::string example = example_toml(all), live;
  EXPECT_TRUE(load_toml_text(example, "example", all).ok());
  for (size_t at = 0; at < example.size();) {   // "#name = value" is a setting, "# sentence" is not
    size_t end = example.find('\n', at) + 1;
    std::string line = example.substr(at, end - at);
    live += line.size() > 1 && line[0] == '#' && line[1] != ' ' ? line.substr(1) : line;
    at = end;
  }
  Options changed{.memory = GiB(2), .interval = seconds(9), .queue = 1, .watermark = 0, .hugepages = false, .name = "other", .key = "", .color = "red"};
  auto other = sections(changed);
  Status status = load_toml_text(live, "example", other);
  EXPECT_TRUE(status.ok()) << status.text() << "\n" << live;
  EXPECT_EQ(json(other), json(all));
}

TEST(Print, a_secret_is_never_shown) {
  Options o;
  o.key = "sesame";
  auto all = sections(o);
  for (auto& printed : {json(all), markdown(all), example_toml(all)}) EXPECT_EQ(printed.find("sesame"), std::string::npos);
  EXPECT_THAT(json(all), HasSubstr("\"key\":\"(set)\""));
  EXPECT_EQ(json(all),
            "{\"node\":{\"memory\":\"1 GiB\",\"heartbeat_interval\":\"1500 ms\",\"queue_depth\":16,\"watermark\":0.95,\"hugepages\":true,"
            "\"name\":\"a \\\"b\\\"\"},\"cluster\":{\"key\":\"(set)\",\"color\":\"blue\"}}");
}

TEST(Print, markdown_names_everything_once) {
  Options o;
  std::string page = markdown(sections(o));
  EXPECT_THAT(page, HasSubstr("| `heartbeat_interval` | `--heartbeat-interval` | duration | `1500 ms` | at least 10 ms | How often. |"));
  EXPECT_THAT(page, HasSubstr("How many \\| wait."));
  EXPECT_THAT(page, HasSubstr("MILLPOND_CLUSTER_…"));
}

}  // namespace
}  // namespace millpond::config
