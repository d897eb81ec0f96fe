// Goal: engine processes replay a trace to the end, and a process that fails ends the replay with a reason, not a hang.
// Method: real forks with a map per process: each engine is alone with infinite memory, so the bound is known.
#include "replay/replay.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <sstream>

#include "replay/coordinator.h"
#include "replay/map_cache.h"
#include "replay/summary.h"

namespace millpond::replay {
namespace {

Result<std::unique_ptr<EngineCache>> own_map(const Options&, uint32_t) {
  static std::map<std::string, std::vector<std::byte>> blocks;   // per process, after the fork
  return std::make_unique<MapCache>(&blocks);
}

Options small() {
  Options options;
  options.trace = "test";
  options.block_size = KiB(4);
  options.batch_blocks = 4;
  options.progress = "none";
  return options;
}

Trace growing(uint32_t sessions, uint32_t turns) {
  Trace trace;
  for (uint32_t s = 0; s < sessions; ++s) trace.sessions.push_back(std::to_string(s));
  for (uint32_t t = 0; t < turns; ++t)
    for (uint32_t s = 0; s < sessions; ++s) {
      Turn turn{.timestamp_ms = 1000 * t, .input_length = 512 * (t + 2) + 5, .session = s, .turn = t};
      for (uint64_t b = 0; b < t + 2; ++b) turn.blocks.push_back(b == 0 ? 0 : 1000 * s + b);
      trace.turns.push_back(turn);
    }
  return trace;
}

TEST(Replay, ReachesTheBoundOfInfiniteCaches) {
  Options options = small();
  options.loads = "wanted";
  options.label = "arm=alone";
  Trace trace = growing(5, 12);
  size_t lines = 0, steps = 0;
  auto run = replay_trace(options, trace, own_map,
                          {.progress = [&](size_t, size_t) { ++steps; },
                           .lines = [&](std::string_view text) {
                             lines += size_t(std::count(text.begin(), text.end(), '\n'));
                             return Status();
                           }});
  ASSERT_TRUE(run) << run.error().text();
  Summary s = summarize(options, trace, *run);
  EXPECT_EQ(s.hit_rate, s.hit_rate_bound_alone);
  EXPECT_LT(s.hit_rate, s.hit_rate_bound);
  EXPECT_GT(s.hit_rate, 0);
  EXPECT_EQ(s.wrong_bytes, 0u);
  EXPECT_EQ(s.blocks_verified, lines);
  EXPECT_EQ(s.tokens_not_prefilled, lines * kBlockTokens);
  EXPECT_EQ(s.loaded_bytes, lines * 4096);
  EXPECT_EQ(steps, trace.turns.size());
  EXPECT_EQ(s.ttft_ms.size(), trace.turns.size());
}

TEST(Replay, AnEngineThatCannotOpenItsCacheSaysWhy) {
  auto factory = [](const Options&, uint32_t number) -> Result<std::unique_ptr<EngineCache>> {
    if (number == 1) return error(Code::unavailable, "no master at {}", "127.0.0.1:9");
    return own_map({}, number);
  };
  auto run = replay_trace(small(), growing(2, 2), factory, {});
  ASSERT_FALSE(run);
  EXPECT_NE(run.error().message().find("no master at 127.0.0.1:9"), std::string::npos) << run.error().text();
}

TEST(Replay, AnEngineThatDiesEndsTheReplay) {
  struct Dies final : EngineCache {
    Lookup lookup(std::span<const std::string>) override { ::_exit(3); }
    std::vector<LoadAnswer> load(const Lookup&, std::span<const LoadBlock>) override { return {}; }
    std::vector<Outcome> store(std::span<const StoreBlock>) override { return {}; }
  };
  auto run = replay_trace(small(), growing(2, 2),
                          [](const Options&, uint32_t) -> Result<std::unique_ptr<EngineCache>> { return std::make_unique<Dies>(); }, {});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code(), Code::unavailable);
}

TEST(Replay, AnEngineThatStopsIsGivenUp) {
  struct Stops final : EngineCache {
    Lookup lookup(std::span<const std::string>) override {
      ::raise(SIGSTOP);
      return {};
    }
    std::vector<LoadAnswer> load(const Lookup&, std::span<const LoadBlock>) override { return {}; }
    std::vector<Outcome> store(std::span<const StoreBlock>) override { return {}; }
  };
  Options options = small();
  options.engines = 1;
  options.turn_deadline = std::chrono::milliseconds(50);
  auto run = replay_trace(options, growing(1, 1),
                          [](const Options&, uint32_t) -> Result<std::unique_ptr<EngineCache>> { return std::make_unique<Stops>(); }, {});
  ASSERT_FALSE(run);
  EXPECT_EQ(run.error().code(), Code::timed_out);
}

TEST(Replay, FromFileToFile) {
  std::string base = testing::TempDir() + "/replay_test_" + std::to_string(::getpid());
  Options options = small();
  options.trace = base + ".jsonl";
  options.json = base + ".json";
  options.loads = base + ".loads.jsonl";
  std::ofstream(options.trace) << "{\"timestamp\": 0, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [1, 2], \"session\": 1}\n"
                                  "{\"timestamp\": 9, \"input_length\": 600, \"output_length\": 1, \"hash_ids\": [1, 3], \"session\": 1}\n";
  options.engines = 1;
  EXPECT_EQ(run(options, own_map), 0);
  std::ostringstream json, loads;
  json << std::ifstream(options.json).rdbuf();
  loads << std::ifstream(options.loads).rdbuf();
  EXPECT_NE(json.str().find("\"tokens_not_prefilled\": 512"), std::string::npos) << json.str();
  EXPECT_NE(json.str().find("\"hit_rate\": 0.426667"), std::string::npos) << json.str();
  EXPECT_NE(loads.str().find("\"key\":\"block/1\",\"bytes\":4096"), std::string::npos) << loads.str();
  options.trace = base + ".nothing";
  EXPECT_EQ(run(options, own_map), 2);
  options.json = "/nonexistent/figures.json";
  EXPECT_EQ(run(options, own_map), 2);
  for (auto suffix : {".jsonl", ".json", ".loads.jsonl"}) std::remove((base + suffix).c_str());
}

TEST(Replay, AWrongByteIsAnExitStatus) {
  std::string path = testing::TempDir() + "/replay_test_wrong_" + std::to_string(::getpid()) + ".jsonl";
  std::ofstream(path) << "{\"timestamp\": 0, \"input_length\": 512, \"hash_ids\": [1]}\n{\"timestamp\": 1, \"input_length\": 512, \"hash_ids\": [1]}\n";
  Options options = small();
  options.trace = path;
  options.engines = 1;
  auto factory = [](const Options&, uint32_t) -> Result<std::unique_ptr<EngineCache>> {
    static std::map<std::string, std::vector<std::byte>> blocks;
    auto cache = std::make_unique<MapCache>(&blocks);
    cache->on_landing = [](const std::string&, std::vector<std::byte>& bytes) { bytes[100] ^= std::byte{1}; };
    return cache;
  };
  EXPECT_EQ(run(options, factory), 1);
  std::remove(path.c_str());
}

}  // namespace
}  // namespace millpond::replay
