// Goal: a pool that cannot be opened says why and what to do, by its deadline. Method: addresses where nobody is, and
// options that cannot be. What a pool does with a cluster is tested where there is one: tests/ and python/millpond/tests.
#include "millpond/pool.h"

#include <gtest/gtest.h>

#include <thread>

#include "pool/answer.h"

namespace millpond {
namespace {

Error error_of(PoolOptions options) {
  try {
    Pool::open(std::move(options));
  } catch (const Error& e) {
    return e;
  }
  return {Outcome::ok, ""};
}

TEST(Pool, no_master_names_the_address_and_what_to_do) {
  auto e = error_of({.master = "127.0.0.1:1", .open_deadline = std::chrono::milliseconds(120)});
  EXPECT_EQ(e.outcome, Outcome::unavailable);
  EXPECT_NE(e.message.find("127.0.0.1:1"), std::string::npos) << e.message;
  EXPECT_NE(e.message.find("millpond master"), std::string::npos) << e.message;
}

TEST(Pool, bad_options_are_invalid) {
  auto e = error_of({.transports = "tcp,rdma"});
  EXPECT_EQ(e.outcome, Outcome::invalid);
  EXPECT_NE(e.message.find("rdma"), std::string::npos);
  EXPECT_EQ(error_of({.master = "nonsense"}).outcome, Outcome::invalid);
  e = error_of({.memory_bytes = 1ull << 60, .open_deadline = std::chrono::milliseconds(120)});
  EXPECT_EQ(e.outcome, Outcome::invalid) << e.message;
}

TEST(Pool, outcomes_have_names) {
  EXPECT_STREQ(name(Outcome::ok), "ok");
  EXPECT_STREQ(name(Outcome::no_space), "no_space");
}

TEST(Deadline, the_largest_of_all_is_a_day_not_the_past) {
  EXPECT_EQ(bounded(std::chrono::milliseconds::max()), std::chrono::hours(24));
  EXPECT_EQ(bounded(std::chrono::milliseconds(7)), std::chrono::milliseconds(7));
}

TEST(Answer, arrives_from_another_thread_or_not_at_all) {
  Answer<int> answer;
  std::thread other([done = answer.callback()] { done(7); });
  EXPECT_EQ(answer.wait(std::chrono::hours(1)), 7);
  other.join();
  EXPECT_EQ(Answer<int>().wait(std::chrono::nanoseconds(1)), std::nullopt);
}

TEST(Answer, a_callback_may_outlive_it) {
  auto answer = std::make_unique<Answer<std::string>>();
  auto done = answer->callback();
  answer.reset();
  done("late");
}

}  // namespace
}  // namespace millpond
