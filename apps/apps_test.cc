// Goal: a command line ends in the right options and exit status, or in a sentence that says what was wrong.
// Method: made-up commands and tables; what is printed is captured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>

#include "ask_loop.h"
#include "command_line.h"
#include "help.h"
#include "stat_table.h"

namespace millpond::apps {
namespace {
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

struct CommandLine : testing::Test {
  Bytes memory = GiB(1);
  std::string master = "a:1", other_master = "b:1", tenant = "t", group = "g";
  bool hugepages = true;
  std::vector<std::string> keys, files;
  std::string output;
  int runs = 0;
  std::vector<config::Section> tables;
  std::vector<Command> commands;

  void SetUp() override {
    tables.emplace_back("node", "A share.").add("memory", memory, "DRAM.", {MiB(8), GiB(64)}).add("hugepages", hugepages, "Try.").add("master", master, "Whom.");
    tables.emplace_back("client", "Who asks.").add("master", other_master, "Whom.");
    tables.emplace_back("rpc", "How.").add("tenant", tenant, "Whose.").add("group", group, "Which.");
    commands = {{.name = "node", .about = "Runs a node.", .example = "  node\n", .tables = {"node", "client"}, .run = [this] { return ++runs, int(kOk); }},
                {.name = "get", .about = "Gets.", .tables = {"client", "rpc.tenant"},
                 .arguments = {{"KEY", "What.", &keys, 1, 2}, {"FILE", "Where.", &files, 0, 1}},
                 .flags = {{"-o,--output", "FILE", "Where.", [this](std::string file) { output = file; }}},
                 .run = [this] { return ++runs, int(kMiss); }}};
  }
  int go(std::vector<const char*> words, std::string* out = nullptr, std::string* err = nullptr) {
    words.insert(words.begin(), "millpond");
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    int exit = run(commands, tables, int(words.size()), words.data());
    std::fflush(nullptr);
    std::string printed = testing::internal::GetCapturedStdout(), complained = testing::internal::GetCapturedStderr();
    if (out) *out = printed;
    if (err) *err = complained;
    return exit;
  }
};

TEST_F(CommandLine, flags_arguments_and_exit_status) {
  EXPECT_EQ(go({"node", "--memory", "64MiB", "--hugepages=no", "--master", "m:1", "--client-master", "c:1"}), kOk);
  EXPECT_EQ(memory, MiB(64));
  EXPECT_FALSE(hugepages);
  EXPECT_EQ(master, "m:1");
  EXPECT_EQ(other_master, "c:1");
  EXPECT_EQ(go({"get", "k", "-o", "out", "--tenant", "x", "--master", "d:1"}), kMiss);
  EXPECT_THAT(keys, ElementsAre("k"));
  EXPECT_EQ(output, "out");
  EXPECT_EQ(tenant, "x");
  EXPECT_EQ(other_master, "d:1");
  EXPECT_EQ(go({"get", "k", "l", "-"}), kMiss);
  EXPECT_THAT(files, ElementsAre("-"));
  EXPECT_EQ(go({"get", "--", "-k"}), kMiss);
  EXPECT_THAT(keys, ElementsAre("-k"));
  EXPECT_EQ(go({"node", "--memory", "8MiB", "--memory", "16MiB"}), kOk);
  EXPECT_EQ(memory, MiB(16)) << "the last one wins";
}

TEST_F(CommandLine, brackets_are_part_of_a_value) {
  EXPECT_EQ(go({"get", "[a,b]", "[]", "--tenant", "[x,y]", "--master=[::1]"}), kMiss);
  EXPECT_THAT(keys, ElementsAre("[a,b]", "[]"));
  EXPECT_EQ(tenant, "[x,y]");
  EXPECT_EQ(other_master, "[::1]");
  EXPECT_EQ(go({"get", "k", "--output", "[out]"}), kMiss);
  EXPECT_EQ(output, "[out]");
}

TEST_F(CommandLine, what_is_wrong_is_said_and_nothing_runs) {
  struct { std::vector<const char*> words; const char* says; } table[] = {
      {{"nodes"}, "did you mean node?"},           {{"node", "--memroy", "64MiB"}, "did you mean --memory?"}, {{"node", "--memory"}, "--memory"},
      {{"node", "--memory", "1MiB"}, "8 MiB"},     {{"node", "surprise"}, "surprise"},                        {{"get"}, "KEY"},
      {{"get", "a", "b", "c", "d"}, "\"d\""},      {{"get", "a", "--group", "x"}, "unknown flag --group"},    {{"get", "a", "-x"}, "-x"},
      {{"node", "-c", "/nonexistent"}, "/nonexistent"}, {{"get", "a", "--output"}, "--output"}};
  for (auto& row : table) {
    std::string err;
    EXPECT_EQ(go(row.words, nullptr, &err), kUsage) << row.says;
    EXPECT_THAT(err, AllOf(HasSubstr(row.says), HasSubstr("--help")));
  }
  EXPECT_EQ(runs, 0);
}

TEST_F(CommandLine, flag_over_environment_over_file) {
  std::string file = testing::TempDir() + "/apps_test.toml";
  std::ofstream(file) << "[node]\nmemory = \"16MiB\"\nmaster = \"file:1\"\nhugepages = false\n[rpc]\ngroup = \"file\"\n";
  setenv("MILLPOND_NODE_MASTER", "environment:1", 1);
  setenv("MILLPOND_NODE_HUGEPAGES", "yes", 1);
  EXPECT_EQ(go({"node", "-c", file.c_str(), "--master", "flag:1"}), kOk);
  unsetenv("MILLPOND_NODE_MASTER");
  unsetenv("MILLPOND_NODE_HUGEPAGES");
  EXPECT_EQ(memory, MiB(16));
  EXPECT_EQ(master, "flag:1");
  EXPECT_TRUE(hugepages);
  EXPECT_EQ(group, "file") << "tables of other commands are read too";
}

TEST_F(CommandLine, help_shows_each_flag_with_default_and_range) {
  std::string out;
  EXPECT_EQ(go({"node", "--help"}, &out), kOk);
  EXPECT_THAT(out, AllOf(HasSubstr("Usage: millpond node"), HasSubstr("--memory SIZE"), HasSubstr("default 1 GiB; 8 MiB … 64 GiB"), HasSubstr("--client-master")));
  EXPECT_EQ(go({"get", "-h"}, &out), kOk);
  EXPECT_THAT(out, AllOf(HasSubstr("KEY… [FILE]"), HasSubstr("--tenant"), HasSubstr("-o, --output FILE"), testing::Not(HasSubstr("--group"))));
  for (auto* word : {"--help", "help", "-h"}) EXPECT_EQ(go({word}, &out), kOk);
  EXPECT_THAT(out, AllOf(HasSubstr("node"), HasSubstr("Runs a node."), HasSubstr("Exit status")));
  EXPECT_EQ(runs, 0);
}

TEST(AskLoop, answers_or_gives_up_and_then_never_asks) {
  std::vector<std::function<void()>> stuck;
  bool ran = false;
  auto question = [&] { return ran = true, std::string("42"); };
  auto late = ask_loop([&](auto task) { stuck.push_back(std::move(task)); }, question, std::chrono::milliseconds(0));
  EXPECT_EQ(late.error().code(), Code::timed_out);
  for (auto& task : stuck) task();         // the loop goes on, after whatever it was asked about has ended
  EXPECT_FALSE(ran);
  EXPECT_EQ(*ask_loop([](auto task) { task(); }, question), "42");
}

TEST(StatTable, shows_nodes_and_passes_over_what_it_does_not_know) {
  auto table = stat_table(R"({"address": "127.0.0.1:7700", "uptime_seconds": 12.5, "warming": false, "future": {"deep": [1, {"x": 2}]},
    "nodes": [{"name": "n1", "address": "127.0.0.1:9", "state": "alive", "blocks": 7, "used_bytes": 1048576, "weight": 1, "victim_age_seconds": null, "new": [1]},
              {"name": "a longer name"}],
    "totals": {"blocks": 7, "nodes_alive": 2}})");
  ASSERT_TRUE(table) << table.error().text();
  EXPECT_THAT(*table, AllOf(HasSubstr("n1"), HasSubstr("1 MiB"), HasSubstr("a longer name"), HasSubstr("2 nodes alive"), testing::Not(HasSubstr("warming"))));
  EXPECT_THAT(*stat_table("{}"), HasSubstr("no node has joined"));
}

TEST(StatTable, knows_the_largest_node_that_lives) {
  EXPECT_EQ(largest_node(R"({"nodes": [{"state": "dead", "capacity_bytes": 900}, {"state": "alive", "capacity_bytes": 64}, {"state": "alive", "capacity_bytes": 128}], "totals": {"capacity_bytes": 192}})"), 128u);
  for (auto* text : {"{}", "", "{\"error\": \"no answer\"}", "{\"nodes\": [7]}"}) EXPECT_EQ(largest_node(text), 0u) << text;
}

TEST(StatTable, refuses_what_is_not_a_state) {
  for (auto* text : {"", "[]", "{", "{\"nodes\": 7}", "{\"nodes\": [7]}", "nonsense", "{\"nodes\": [{\"name\": "}) EXPECT_FALSE(stat_table(text)) << text;
}

}  // namespace
}  // namespace millpond::apps
