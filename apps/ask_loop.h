// A question from another thread to a daemon's loop. A loop that is stuck is told instead of waited for.
#pragma once
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <memory>
#include <string>

#include "base/status.h"

namespace millpond::apps {

// `post` hands a task to the loop. timed_out: the loop had not begun to answer within `limit`; then `question` never
// runs, so that what it refers to may end as soon as we have returned.
inline Result<std::string> ask_loop(const std::function<void(std::function<void()>)>& post, std::function<std::string()> question,
                                    std::chrono::milliseconds limit = std::chrono::seconds(1)) {
  struct Asked {
    std::atomic<bool> taken{false};        // by the loop, which answers it, or by us, who gave up
    std::promise<std::string> answer;
  };
  auto asked = std::make_shared<Asked>();
  auto answer = asked->answer.get_future();
  post([asked, question = std::move(question)] {
    if (!asked->taken.exchange(true)) asked->answer.set_value(question());
  });
  if (answer.wait_for(limit) != std::future_status::ready && !asked->taken.exchange(true))
    return error(Code::timed_out, "the daemon's loop has not answered for {} ms: it is stuck or starved of processor time", limit.count());
  return answer.get();
}

}  // namespace millpond::apps
