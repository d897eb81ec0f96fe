// Goal: the figures are what they say they are. Method: calls whose number and bytes are known; baselines for an
// instant; texts of settings and of the report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "measure/baseline.h"
#include "measure/bench.h"
#include "measure/settings.h"

namespace millpond::measure {
namespace {
using std::chrono::milliseconds;
using testing::HasSubstr;

TEST(Percentile, is_a_value_that_was_measured) {
  std::vector<Duration> none, one{Duration(7)}, many;
  for (int i = 100; i >= 1; --i) many.push_back(Duration(i));
  EXPECT_EQ(percentile(none, 0.5), Duration(0));
  EXPECT_EQ(percentile(one, 0.99), Duration(7));
  EXPECT_EQ(percentile(many, 0.5), Duration(50));
  EXPECT_EQ(percentile(many, 0.99), Duration(99));
  EXPECT_EQ(percentile(many, 1), Duration(100));
  EXPECT_EQ(percentile(many, 0), Duration(1));
}

TEST(Measure, counts_every_call_of_every_worker_once) {
  std::atomic<uint64_t> calls{0};
  Rate rate = measure(3, std::chrono::hours(1), [&](size_t worker, uint64_t round) -> uint64_t {
    if (round == 10 * (worker + 1)) return kDone;
    return ++calls, 5;
  });
  EXPECT_EQ(calls, 60u);
  EXPECT_EQ(rate.calls, 60u);
  EXPECT_EQ(rate.bytes, 300u);
  EXPECT_GE(rate.elapsed, rate.worst);
  EXPECT_LE(rate.p50, rate.p99);
  EXPECT_LE(rate.p99, rate.worst);
}

TEST(Measure, nothing_to_do_is_zero) {
  Rate rate = measure(2, std::chrono::hours(1), [](size_t, uint64_t) { return kDone; });
  EXPECT_EQ(rate.calls, 0u);
  EXPECT_EQ(rate.p99, Duration(0));
  EXPECT_EQ(Rate().gigabytes_per_second(), 0);
}

TEST(Baseline, moves_whole_blocks) {
  Rate copied = copy_memory(KiB(64), 2, MiB(1), milliseconds(5));
  EXPECT_GT(copied.calls, 0u);
  EXPECT_EQ(copied.bytes, copied.calls * KiB(64).count);
  auto read = read_socket(KiB(300), 2, Bytes{1}, milliseconds(5));   // a working set below one block is one block
  ASSERT_TRUE(read) << read.error().text();
  EXPECT_GT(read->calls, 0u);
  EXPECT_EQ(read->bytes, read->calls * KiB(300).count);
}

TEST(BenchSettings, lists_are_read_and_refused) {
  Options o;
  auto section = describe(o);
  auto set = [&](const char* name, const char* text) {
    for (auto& setting : section.settings())
      if (setting.name == name) return setting.set(text);
    return Status(Code::internal);
  };
  EXPECT_TRUE(set("transports", "tcp, shm").ok());
  EXPECT_TRUE(set("blocks", "4KiB,1MB").ok());
  EXPECT_TRUE(set("concurrency", "1,16").ok());
  EXPECT_EQ(o.transports, (std::vector<std::string>{"tcp", "shm"}));
  EXPECT_EQ(o.blocks, (std::vector<Bytes>{KiB(4), Bytes{1'000'000}}));
  EXPECT_EQ(o.concurrency, (std::vector<size_t>{1, 16}));
  for (auto& setting : section.settings()) {   // what is shown can be read back
    std::string shown = setting.get();
    EXPECT_TRUE(setting.set(shown).ok()) << shown;
  }
  EXPECT_EQ(o.blocks, (std::vector<Bytes>{KiB(4), Bytes{1'000'000}}));
  struct { const char* name; const char* text; const char* says; } table[] = {
      {"transports", "rdma", "\"rdma\""}, {"transports", "", "empty"}, {"blocks", "2 elephants", "2 elephants"}, {"blocks", "2GiB", "1 GiB"},
      {"concurrency", "0", "1 … 256"}, {"concurrency", "1;2", "1;2"}, {"concurrency", "", "empty"}};
  for (auto& row : table) EXPECT_THAT(set(row.name, row.text).message(), HasSubstr(row.says)) << row.name << " " << row.text;
}

TEST(Report, shows_what_failed) {
  Row row{.what = "tcp", .block = MiB(2), .concurrency = 4, .failed = 3, .failed_with = "no_space"};
  row.load = {.calls = 10, .bytes = 20'000'000, .elapsed = milliseconds(10), .p50 = Duration(1'500'000)};
  EXPECT_THAT(table_line(row), testing::AllOf(HasSubstr("3 (no_space)"), HasSubstr("2.00"), HasSubstr("1500")));
  EXPECT_THAT(json({row}), testing::AllOf(HasSubstr("\"load_GBps\": 2.0000"), HasSubstr("\"failed\": 3")));
}

}  // namespace
}  // namespace millpond::measure
