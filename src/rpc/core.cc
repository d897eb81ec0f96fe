#include "rpc/core.h"

#include <random>

#include "base/log.h"

namespace millpond::rpc {

int64_t LogLimit::ask(const std::string& kind, Time now) {
  constexpr Duration kQuiet = std::chrono::seconds(10);
  if (kinds_.size() > 256) kinds_.clear();           // texts hold what peers said: bounded all the same
  auto [found, fresh] = kinds_.try_emplace(kind, Kind{now});
  if (fresh) return 0;
  if (now - found->second.last < kQuiet) return ++found->second.kept_back, -1;
  found->second.last = now;
  return std::exchange(found->second.kept_back, 0);
}

Core::Core(AsioRuntime::Options chosen, Metrics& registry)
    : options(std::move(chosen)), metrics(registry), loop(std::make_shared<Loop>(options.thread_name)), random_state([] {
        std::random_device device;
        return uint64_t(device()) << 32 | device();
      }()) {}

void Core::log_refusal(const std::string& who, const Status& reason) {
  int64_t kept_back = log_limit.ask(reason.text(), Loop::now());
  if (kept_back < 0) return;
  log::warn("rpc: {}: {}{}", who, reason.text(), kept_back ? fmt::format(" ({} more like it)", kept_back) : "");
}

void Core::sweep() {
  if (ending) return;
  Time now = Loop::now();
  auto all = parts;                                  // parts leave while they are asked
  for (auto& part : all) part->check_stall(now - options.stall_timeout);
  loop->at(now + std::min<Duration>(std::chrono::seconds(1), options.stall_timeout / 4 + std::chrono::milliseconds(1)), [this] { sweep(); });
}

void Core::end() {
  ending = true;
  auto all = std::exchange(parts, {});
  for (auto& part : all) part->end();
}

}  // namespace millpond::rpc
