// How full live blocks keep the arena, and what a store and an eviction cost in bookkeeping (CPU time).
//   bench/arena_fill [--json] [--arena GIB]
// No payload is written: the question is what the allocator and the eviction leave unused. Blocks come in chains of up
// to 32 (a turn of a session); one in eight stores is preceded by a lookup that protects a run. `minimum` is live bytes
// over arena bytes, the smallest at any moment after the first eviction: between reserve and commit too, when the block
// that is being written counts as not live. The mix changes its shares of bytes at random every half arena stored.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/checksum.h"
#include "base/log.h"
#include "base/random.h"
#include "tier/dram_tier.h"

using namespace millpond;

namespace {

struct Workload {
  std::string name;
  std::vector<uint64_t> lengths;
  double promise;                        // the minimum must not be below
};

struct Outcome {
  double minimum = 1;
  double mean = 0;
  uint64_t stores = 0;
  uint64_t evictions = 0;
  uint64_t no_space = 0;
  double ns_per_store_filling = 0;       // reserve + commit, until the first eviction
  double ns_per_store_full = 0;          // with the evictions, lookups and protections that come with it
  double ns_per_eviction = 0;            // of one reserve that evicts half the arena: from victim to free pages
};

// Of this thread: other work on the machine does not count.
double cpu_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) * 1e9 + double(now.tv_nsec);
}

// Shares of bytes for each length: one of them alone, two, or all, by chance.
std::vector<double> new_shares(size_t count, Random& random) {
  std::vector<double> shares(count);
  double sum = 0;
  while (sum == 0) {
    for (auto& share : shares) sum += share = random.chance(0.6) ? random.unit() : 0;
  }
  for (auto& share : shares) share /= sum;
  return shares;
}

class Runner {
 public:
  Runner(const Workload& workload, Bytes arena, bool measure_fill, uint64_t seed)
      : workload_(workload), measure_fill_(measure_fill), random_(seed) {
    auto opened = tier::DramTier::open({.capacity = arena, .hugepages = false}, tier::make_leaf_lru(), metrics_);
    MP_CHECK(opened.has_value(), "{}", opened.error().text());
    tier_ = *std::move(opened);
    capacity_ = double(tier_->usage().capacity.count);
    shares_ = new_shares(workload.lengths.size(), random_);
    sums_.resize(chunk_count(*std::ranges::max_element(workload.lengths)));
  }

  Outcome run(double arenas) {
    double written = 0, next_phase = capacity_ / 2, all = arenas * capacity_;
    double started = cpu_ns();
    double filling_ns = 0;
    uint64_t filling_stores = 0;
    while (written < all) {
      uint64_t length = next_length();
      if (!store(length)) continue;
      written += double(length);
      if (written > next_phase && workload_.lengths.size() > 1) next_phase += capacity_ / 2, shares_ = new_shares(shares_.size(), random_);
      if (!full_ && evicted() > 0) {
        full_ = true;
        filling_ns = cpu_ns() - started;
        filling_stores = outcome_.stores;
        started = cpu_ns();
      }
    }
    double ns = cpu_ns() - started;
    outcome_.evictions = evicted();
    outcome_.mean /= double(std::max<uint64_t>(moments_, 1));
    outcome_.ns_per_store_filling = filling_ns / double(std::max<uint64_t>(filling_stores, 1));
    outcome_.ns_per_store_full = ns / double(std::max<uint64_t>(outcome_.stores - filling_stores, 1));
    evict_half();
    return outcome_;
  }

 private:
  uint64_t next_length() {   // chances by count such that the shares are of bytes
    double sum = 0;
    for (size_t i = 0; i < shares_.size(); ++i) sum += shares_[i] / double(workload_.lengths[i]);
    double at = random_.unit() * sum;
    for (size_t i = 0; i < shares_.size(); ++i) {
      at -= shares_[i] / double(workload_.lengths[i]);
      if (at < 0) return workload_.lengths[i];
    }
    return workload_.lengths.back();
  }

  bool store(uint64_t length) {
    now_ = now_ + std::chrono::milliseconds(1);
    if (chain_left_ == 0) chain_left_ = 1 + random_.below(32), parent_ = {};
    if (random_.chance(0.125) && !recent_.empty()) tier_->touch(recent_[random_.below(recent_.size())], 32, true, now_);
    ++number_;
    BlockId id{random_.next(), random_.next(), 1, 0, 0};
    char key[] = "fedcba9876543210fedcba9876543210@model/layout/tp_rank:0/group:0";
    auto reservation = tier_->reserve({.id = id, .parent = parent_, .key = key, .length = length}, now_);
    if (!reservation) {
      MP_CHECK(reservation.error().code() == Code::no_space, "{}", reservation.error().text());
      ++outcome_.no_space;
      return false;
    }
    look();
    auto done = tier_->commit(std::move(*reservation), std::span(sums_).first(chunk_count(length)), 1, now_);
    MP_CHECK(done.has_value(), "{}", done.error().text());
    look();
    if (number_ % 1024 == 0) tier_->take_events(std::numeric_limits<size_t>::max());
    parent_ = id;
    --chain_left_;
    ++outcome_.stores;
    if (recent_.size() < 256) recent_.push_back(id);
    else recent_[random_.below(256)] = id;
    return true;
  }

  void evict_half() {
    now_ = now_ + std::chrono::minutes(1);   // no protection left
    uint64_t before = evicted(), length = std::min<uint64_t>(uint64_t(capacity_ / 2), 2ull << 30);
    double started = cpu_ns();
    auto reservation = tier_->reserve({.id = {1, 1, 1, 0, 0}, .key = "half", .length = length}, now_);
    double ns = cpu_ns() - started;
    MP_CHECK(reservation.has_value(), "{}", reservation.error().text());
    outcome_.ns_per_eviction = ns / double(std::max<uint64_t>(evicted() - before, 1));
  }

  void look() {
    if (!measure_fill_ || !full_) return;
    double fill = double(tier_->usage().live.count) / capacity_;
    outcome_.minimum = std::min(outcome_.minimum, fill);
    outcome_.mean += fill;
    ++moments_;
  }

  uint64_t evicted() { return metrics_.counter("millpond_tier_evicted_blocks_total", "", "tier=\"dram\"").value(); }

  const Workload& workload_;
  const bool measure_fill_;
  Random random_;
  Metrics metrics_;
  std::unique_ptr<tier::DramTier> tier_;
  double capacity_ = 0;
  std::vector<double> shares_;
  std::vector<uint64_t> sums_;
  std::vector<BlockId> recent_;
  BlockId parent_;
  uint64_t chain_left_ = 0;
  uint64_t number_ = 0;
  uint64_t moments_ = 0;
  bool full_ = false;
  Time now_;
  Outcome outcome_;
};

}  // namespace

int main(int argc, char** argv) {
  bool json = false;
  uint64_t gib = 4;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--json")) json = true;
    else if (!std::strcmp(argv[i], "--arena") && i + 1 < argc && std::atoi(argv[i + 1]) > 0) gib = uint64_t(std::atoi(argv[++i]));
    else {
      fmt::print(stderr, "usage: arena_fill [--json] [--arena GIB]\n");
      return 2;
    }
  }
  log::set_level(log::Level::warn);
  const std::vector<Workload> workloads{
      {"256 KiB", {256 << 10}, 0.95},
      {"1 MiB", {1 << 20}, 0.95},
      {"2 MiB", {2 << 20}, 0.95},
      {"mix of 256 KiB, 2 MiB, 40 MiB", {256 << 10, 2 << 20, 40 << 20}, 0.90},
  };
  if (json) fmt::print("[");
  else {
    fmt::print("Arena of {}; twelve arenas of blocks stored in each row.\n\n", text(GiB(gib)));
    fmt::print("{:<32}{:>9}{:>8}{:>10}{:>9}{:>11}{:>10}{:>11}{:>13}{:>10}\n", "blocks", "minimum", "mean", "promised", "stores", "evictions", "ns/store", "when full", "ns/eviction", "no space");
  }
  bool kept = true;
  for (size_t i = 0; i < workloads.size(); ++i) {
    const Workload& workload = workloads[i];
    Outcome outcome = Runner(workload, GiB(gib), true, i + 1).run(12);
    Outcome timed = Runner(workload, GiB(gib), false, i + 1).run(12);   // without a look at the usage after each step
    kept = kept && outcome.minimum >= workload.promise;
    if (json) {
      fmt::print("{}{{\"blocks\": \"{}\", \"arena_bytes\": {}, \"minimum\": {:.4f}, \"mean\": {:.4f}, \"promised\": {}, \"stores\": {}, \"evictions\": {}, \"ns_per_store_filling\": {:.0f}, \"ns_per_store_full\": {:.0f}, \"ns_per_eviction\": {:.0f}, \"no_space\": {}}}",
                 i ? ",\n " : "", workload.name, GiB(gib).count, outcome.minimum, outcome.mean, workload.promise, outcome.stores, outcome.evictions, timed.ns_per_store_filling, timed.ns_per_store_full, timed.ns_per_eviction, outcome.no_space);
    } else {
      fmt::print("{:<32}{:>8.2f}%{:>7.2f}%{:>9.0f}%{:>9}{:>11}{:>10.0f}{:>11.0f}{:>13.0f}{:>10}\n", workload.name, 100 * outcome.minimum, 100 * outcome.mean,
                 100 * workload.promise, outcome.stores, outcome.evictions, timed.ns_per_store_filling, timed.ns_per_store_full, timed.ns_per_eviction, outcome.no_space);
    }
  }
  if (json) fmt::print("]\n");
  if (!kept) fmt::print(stderr, "below what is promised\n");
  return kept ? 0 : 1;
}
