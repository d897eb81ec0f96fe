// Goal: an engine loads what is cached, checks every byte, prefills and stores the rest; a hit is a loaded, right prefix.
// Method: a map in place of the pool, with blocks that vanish between lookup and load, and bytes that flip.
#include "replay/engine.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "replay/content.h"
#include "replay/map_cache.h"

namespace millpond::replay {
namespace {

struct EngineTest : testing::Test {
  std::map<std::string, std::vector<std::byte>> blocks;
  MapCache* cache = nullptr;
  std::string lines;
  Trace trace;

  Engine make(uint32_t number = 0) {
    auto owned = std::make_unique<MapCache>(&blocks);
    cache = owned.get();
    int64_t ticks = 0;
    return Engine({.number = number, .block_size = KiB(4), .layers = 4, .batch_blocks = 3, .line_prefix = "\"arm\":\"pool\",",
                   .want_lines = true, .clock = [ticks]() mutable { return Time{Duration(ticks += 1000)}; },
                    .cpu_clock = [ticks]() mutable { return Time{Duration(ticks += 700)}; }},
                  std::move(owned));
  }
  uint32_t add_turn(std::vector<uint64_t> ids) {
    trace.turns.push_back({.input_length = uint32_t(ids.size() * 512 + 10), .turn = uint32_t(trace.turns.size()), .blocks = ids});
    return uint32_t(trace.turns.size() - 1);
  }
};

TEST_F(EngineTest, MissesThenHits) {
  Engine engine = make();
  TurnRecord cold = engine.run(trace, add_turn({1, 2, 3, 4, 5}), lines);
  EXPECT_EQ(cold.hits, 0u);
  EXPECT_EQ(cold.stores, 5u);
  EXPECT_EQ(cache->store_calls, 2u);   // batches of 3
  EXPECT_TRUE(lines.empty());
  TurnRecord warm = engine.run(trace, add_turn({1, 2, 3, 4, 5, 6}), lines);
  EXPECT_EQ(warm.matched, 5u);
  EXPECT_EQ(warm.hits, 5u);
  EXPECT_EQ(warm.verified, 5u);
  EXPECT_EQ(warm.wrong_bytes, 0u);
  EXPECT_EQ(warm.loaded_bytes, 5u * 4096);
  EXPECT_EQ(warm.stores, 1u);
  EXPECT_EQ(warm.load_ns, 2000);
  EXPECT_EQ(warm.load_cpu_ns, 1400);
  EXPECT_EQ(cache->loads_without_plan, 0u);
}

TEST_F(EngineTest, WritesALineThatCanBeRebuiltFromOutside) {
  Engine engine = make(2);
  engine.run(trace, add_turn({42}), lines);
  engine.run(trace, add_turn({42}), lines);
  ByteVector expected(4096);
  fill_content(content_seed("block/42"), 0, expected);
  EXPECT_EQ(lines, fmt::format("{{\"arm\":\"pool\",\"key\":\"block/42\",\"bytes\":4096,\"owner\":\"map\",\"transport\":\"local\","
                               "\"checksum\":\"{:016x}\",\"ok\":true,\"engine\":2,\"session\":0,\"turn\":1}}\n",
                               hash64(expected)));
}

TEST_F(EngineTest, APrefixEndsWhereALoadMisses) {
  Engine engine = make();
  engine.run(trace, add_turn({1, 2, 3, 4, 5, 6, 7}), lines);
  cache->on_load = [](const std::string& key) { return key == "block/2" ? Outcome::miss : Outcome::ok; };
  TurnRecord record = engine.run(trace, add_turn({1, 2, 3, 4, 5, 6, 7}), lines);
  EXPECT_EQ(record.matched, 7u);
  EXPECT_EQ(record.hits, 1u);
  EXPECT_EQ(record.load_misses, 1u);
  EXPECT_EQ(record.loads, 2u);             // 1 and 3 of the first batch; the next batches are of no use
  EXPECT_EQ(record.stores_existing, 6u);
}

TEST_F(EngineTest, AFlippedBitIsNeverAHit) {
  Engine engine = make();
  engine.run(trace, add_turn({1, 2}), lines);
  cache->on_landing = [](const std::string& key, std::vector<std::byte>& bytes) {
    if (key == "block/1") bytes[4095] ^= std::byte{4};
  };
  TurnRecord record = engine.run(trace, add_turn({1, 2}), lines);
  EXPECT_EQ(record.hits, 0u);
  EXPECT_EQ(record.wrong_bytes, 1u);
  EXPECT_EQ(record.wrong_blocks, 1u);
  EXPECT_NE(lines.find("\"ok\":false"), std::string::npos);
}

TEST_F(EngineTest, AShortBlockIsWrong) {
  Engine engine = make();
  engine.run(trace, add_turn({1}), lines);
  cache->on_landing = [](const std::string&, std::vector<std::byte>& bytes) { bytes.resize(1500); };
  TurnRecord record = engine.run(trace, add_turn({1}), lines);
  EXPECT_EQ(record.hits, 0u);
  EXPECT_EQ(record.wrong_bytes, 4096u - 1500u);
}

TEST_F(EngineTest, ALoadThatMovesNothingIsSeen) {
  // Same keys, same slots as the turn before: what an earlier load left there must not pass for this one's.
  struct Liar final : EngineCache {
    MapCache inner;
    bool lie = false;
    explicit Liar(std::map<std::string, std::vector<std::byte>>* blocks) : inner(blocks) {}
    Lookup lookup(std::span<const std::string> keys) override { return inner.lookup(keys); }
    std::vector<LoadAnswer> load(const Lookup& found, std::span<const LoadBlock> list) override {
      if (!lie) return inner.load(found, list);
      return std::vector<LoadAnswer>(list.size(), {.outcome = Outcome::ok, .length = 4096, .owner = "liar", .transport = "local"});
    }
    std::vector<Outcome> store(std::span<const StoreBlock> list) override { return inner.store(list); }
  };
  auto owned = std::make_unique<Liar>(&blocks);
  Liar* liar = owned.get();
  Engine engine({.block_size = KiB(4), .layers = 4, .batch_blocks = 3, .clock = [] { return Time{}; }, .cpu_clock = [] { return Time{}; }}, std::move(owned));
  engine.run(trace, add_turn({1}), lines);
  EXPECT_EQ(engine.run(trace, add_turn({1}), lines).hits, 1u);
  liar->lie = true;
  EXPECT_EQ(engine.run(trace, add_turn({1}), lines).hits, 0u);
}

TEST_F(EngineTest, AnEmptyPromptCostsNothing) {
  Engine engine = make();
  TurnRecord record = engine.run(trace, add_turn({}), lines);
  EXPECT_EQ(record.blocks, 0u);
  EXPECT_EQ(cache->store_calls, 0u);
}

}  // namespace
}  // namespace millpond::replay
