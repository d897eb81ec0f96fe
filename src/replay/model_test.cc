// Goal: bounds, dispatch order, TTFT and settings are what their headers say.
// Method: traces of a few turns, worked by hand.
#include <gtest/gtest.h>

#include "replay/bound.h"
#include "replay/dispatch.h"
#include "replay/options.h"
#include "replay/ttft.h"

namespace millpond::replay {
namespace {

Trace two_sessions() {
  Trace trace;
  trace.sessions = {"a", "b"};
  auto add = [&](uint64_t at, uint32_t session, uint32_t turn, std::vector<uint64_t> blocks) {
    trace.turns.push_back({.timestamp_ms = at, .input_length = uint32_t(512 * blocks.size()), .session = session, .turn = turn, .blocks = blocks});
  };
  add(0, 0, 0, {1, 2});
  add(1000, 1, 0, {1, 9});
  add(2000, 0, 1, {1, 2, 3});
  add(3000, 0, 2, {1, 2, 3, 4});
  return trace;
}

TEST(Bound, SharedAndAlone) {
  Trace trace = two_sessions();
  Bound shared = infinite_shared(trace);
  EXPECT_EQ(shared.tokens_total, 11u * 512);
  EXPECT_EQ(shared.tokens_cached, 6u * 512);
  // Two engines: a/0 on 0, b/0 on 1, a/1 on 1 (knows block 1 from b), a/2 on 0 (knows 1 2).
  EXPECT_EQ(infinite_alone(trace, 2).tokens_cached, 3u * 512);
}

TEST(Dispatch, KeepsOrderPerSessionAndEngine) {
  Trace trace = two_sessions();
  Dispatch dispatch(trace, 3, 0);
  EXPECT_EQ(dispatch.next(Duration(0)), 0u);
  EXPECT_EQ(dispatch.next(Duration(0)), 1u);          // other session, other engine
  EXPECT_EQ(dispatch.next(Duration(0)), std::nullopt);   // session a is busy
  EXPECT_EQ(dispatch.wait(Duration(0)), Duration::max());
  dispatch.ended(0);
  EXPECT_EQ(dispatch.next(Duration(0)), std::nullopt);   // a/1 wants engine 1, where b/0 runs
  dispatch.ended(1);
  EXPECT_EQ(dispatch.next(Duration(0)), 2u);
  dispatch.ended(2);
  EXPECT_EQ(dispatch.next(Duration(0)), 3u);
  EXPECT_FALSE(dispatch.finished());
  dispatch.ended(3);
  EXPECT_TRUE(dispatch.finished());
  EXPECT_EQ(dispatch.next(Duration(0)), std::nullopt);
}

TEST(Dispatch, NoTurnBeforeItsTime) {
  Trace trace = two_sessions();
  Dispatch dispatch(trace, 3, 10);                     // ten times as fast
  EXPECT_EQ(dispatch.next(Duration(0)), 0u);
  EXPECT_EQ(dispatch.next(Duration(0)), std::nullopt);
  EXPECT_EQ(dispatch.wait(Duration(0)), Duration(std::chrono::milliseconds(100)));
  EXPECT_EQ(dispatch.next(std::chrono::milliseconds(100)), 1u);
}

TEST(Dispatch, ATurnOfTheFarFutureIsNotDueNow) {
  Trace trace = two_sessions();
  trace.turns[1].timestamp_ms = 1'000'000'000'000'000;   // the latest that a trace may say
  Dispatch dispatch(trace, 3, 1e-6);
  EXPECT_EQ(dispatch.next(Duration(0)), 0u);
  EXPECT_EQ(dispatch.next(std::chrono::hours(24 * 365)), std::nullopt);
  EXPECT_GT(dispatch.wait(std::chrono::hours(24 * 365)), Duration(std::chrono::hours(24 * 365)));
}

TEST(Dispatch, NextTurnMeetsAnotherEngine) {
  for (uint32_t turn = 0; turn < 10; ++turn)
    EXPECT_NE(engine_of({.session = 4, .turn = turn}, 3), engine_of({.session = 4, .turn = turn + 1}, 3));
}

TEST(Ttft, QueueLoadAndPrefillAddUp) {
  TtftModel model{.prefill_speed = 1000, .bytes_per_token = 100, .load_rate = 1e6};   // 1 ms, 0.1 ms per token
  std::vector<TurnCost> turns{
      {.timestamp_ms = 0, .session = 0, .engine = 0, .tokens_loaded = 0, .tokens_prefilled = 100},      // 100 ms
      {.timestamp_ms = 50, .session = 1, .engine = 0, .tokens_loaded = 100, .tokens_prefilled = 10},    // waits 50, loads 10, 10
      {.timestamp_ms = 60, .session = 0, .engine = 1, .tokens_loaded = 0, .tokens_prefilled = 5},       // its own first ends at 100
  };
  auto ms = ttft_ms(turns, model);
  ASSERT_EQ(ms.size(), 3u);
  EXPECT_DOUBLE_EQ(ms[0], 100);
  EXPECT_DOUBLE_EQ(ms[1], 70);
  EXPECT_DOUBLE_EQ(ms[2], 5);
}

TEST(Ttft, PercentilesAreNearestRank) {
  EXPECT_EQ(percentile({}, 0.5), 0);
  EXPECT_EQ(percentile({3, 1, 2}, 0.5), 2);
  EXPECT_EQ(percentile({3, 1, 2}, 0.99), 3);
  EXPECT_EQ(percentile({7}, 0.01), 7);
}

TEST(Options, SayWhatDoesNotFit) {
  Options good;
  good.trace = "t.jsonl";
  EXPECT_TRUE(validate(good).ok()) << validate(good).text();
  auto says = [&](auto change) {
    Options bad = good;
    change(bad);
    Status status = validate(bad);
    EXPECT_EQ(status.code(), Code::invalid);
    return status.message();
  };
  EXPECT_NE(says([](Options& o) { o.trace = ""; }).find("no trace"), std::string::npos);
  EXPECT_NE(says([](Options& o) { o.block_size = {5000}; }).find("multiple"), std::string::npos);
  EXPECT_NE(says([](Options& o) { o.master = "a:1,b:2"; }).find("2 masters for 3 engines"), std::string::npos);
  EXPECT_NE(says([](Options& o) { o.master = ""; }).find("0 masters"), std::string::npos);
  EXPECT_NE(says([](Options& o) { o.progress = "much"; }).find("much"), std::string::npos);
  EXPECT_NE(says([](Options& o) { o.label = "arm"; }).find("name=value"), std::string::npos);
  EXPECT_NE(says([](Options& o) { o.label = "a=\"b"; }).find("quotes"), std::string::npos);
  EXPECT_NE(says([](Options& o) { o.batch_blocks = 4096, o.block_size = MiB(1); }).find("1 GiB"), std::string::npos);
  EXPECT_EQ(*label_members("arm=pool,size=ample"), "\"arm\":\"pool\",\"size\":\"ample\",");
  EXPECT_EQ(*label_members(""), "");
  good.master = " a:1, b:2 ,c:3";
  EXPECT_EQ(masters_of(good), (std::vector<std::string>{"a:1", "b:2", "c:3"}));
}

}  // namespace
}  // namespace millpond::replay
