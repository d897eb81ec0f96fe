#include "sim/workload.h"

#include <fmt/format.h>

#include <algorithm>

namespace millpond::sim {

Workload::Workload(Cluster& cluster, WorkloadOptions options, uint64_t seed)
    : cluster_(cluster), options_(options), random_(seed), agents_(options.agents), turns_left_(options.turns) {
  for (int i = 0; i < 3; ++i) prompts_.push_back(1 + random_.below(options_.prompt_blocks_max));
  for (auto& agent : agents_) new_session(agent);
}

void Workload::start() {
  for (size_t i = 0; i < agents_.size(); ++i) {
    ++agents_active_;
    after(Duration(random_.below(uint64_t(options_.think_max.count()))), [this, i] { turn(i); });
  }
}

void Workload::after(Duration delay, std::function<void()> task) { cluster_.world().after(delay, kWorldProcess, std::move(task)); }

void Workload::new_session(Agent& agent) {
  for (auto& key : agent.chain)
    if (key.starts_with("session")) retired_.push_back(key);
  agent.session = ++sessions_;
  agent.chain.clear();
  auto prompt = random_.below(prompts_.size());
  for (size_t i = 0; i < prompts_[prompt]; ++i) agent.chain.push_back(fmt::format("prompt{}/{}", prompt, i));
}

bool Workload::pick_client(size_t& client) {
  std::vector<size_t> up;
  for (size_t i = 0; i < cluster_.clients(); ++i)
    if (cluster_.client(i).up()) up.push_back(i);
  if (up.empty()) return false;
  client = up[random_.below(up.size())];
  return true;
}

void Workload::turn(size_t i) {
  if (turns_left_ == 0) {
    --agents_active_;
    return;
  }
  --turns_left_;
  ++result_.turns;
  auto& agent = agents_[i];
  if (agent.chain.size() > 40 || random_.chance(0.05)) new_session(agent);
  auto grown = 1 + random_.below(options_.blocks_per_turn_max);
  for (size_t n = 0; n < grown; ++n) agent.chain.push_back(fmt::format("session{}/{}", agent.session, agent.chain.size()));
  size_t client;
  if (!pick_client(client)) return finish_turn(i);

  if (random_.chance(options_.remove_all)) {
    ++result_.operations, ++result_.removals;
    cluster_.client(client).begin_remove_all(Duration(0));
  } else if (random_.chance(options_.remove)) {
    remove(i, client);
  }
  look_up(i, client);
}

// A few keys of this chain, which will be stored again, prompts of others among them; or of a session that ended: then
// nobody stores them again, and whoever finds one later has found a removed block.
void Workload::remove(size_t i, size_t client) {
  std::vector<std::string> keys;
  auto& chain = agents_[i].chain;
  bool retired = !retired_.empty() && random_.chance(0.6);
  for (size_t n = 1 + random_.below(3); n > 0; --n) keys.push_back(retired ? retired_[random_.below(retired_.size())] : chain[random_.below(chain.size())]);
  ++result_.operations, ++result_.removals;
  cluster_.client(client).begin_remove(keys, Duration(0), [this, keys](const Operation&) {
    for (int n = 0; n < 4; ++n)
      after(Duration(random_.below(n == 0 ? 1'000'000 : 1'500'000'000)), [this, keys] {
        size_t reader;
        if (!pick_client(reader)) return;
        ++result_.operations;
        cluster_.client(reader).begin_lookup(keys, /*each=*/true, Duration(0));
      });
  });
}

void Workload::look_up(size_t i, size_t client) {
  ++result_.operations;
  auto lookup = cluster_.client(client).begin_lookup(agents_[i].chain, random_.chance(options_.locate), Duration(0), [this, i, client](const Operation& lookup) {
    move(i, client, lookup.plan);
  });
  lookup->on_abort = [this, i] { finish_turn(i); };
}

void Workload::move(size_t i, size_t client, const client::Plan& plan) {
  // What was found is loaded soon, sometimes late.
  auto delay = random_.chance(0.1) ? Duration(random_.below(2'000'000'000)) : Duration(random_.below(2'000'000));
  after(delay, [this, i, client, plan] {
    if (!cluster_.client(client).up()) return finish_turn(i);
    auto& chain = agents_[i].chain;
    size_t matched = std::min(plan.matched, chain.size());
    if (matched == 0) return store_rest(i, client, 0);
    ++result_.operations;
    // As an engine does: not what it has itself, so a random tail of the prefix.
    std::vector<std::string> keys(chain.begin(), chain.begin() + std::ptrdiff_t(matched));
    bool with_plan = !random_.chance(0.1);
    auto loaded = [this, i, client, matched](const Operation& load) {
      result_.blocks_loaded += load.count(Code::ok);
      result_.blocks_missed += load.keys.size() - load.count(Code::ok);
      size_t usable = 0;
      while (usable < load.loaded.size() && load.loaded[usable].code == Code::ok) ++usable;
      store_rest(i, client, std::min(usable, matched));
    };
    auto load = cluster_.client(client).begin_load(std::move(keys), with_plan ? &plan : nullptr, Duration(0), loaded);
    load->on_abort = [this, i] { finish_turn(i); };
  });
}

void Workload::store_rest(size_t i, size_t client, size_t from) {
  auto& chain = agents_[i].chain;
  if (from >= chain.size() || !cluster_.client(client).up()) return finish_turn(i);
  std::vector<std::string> keys(chain.begin() + std::ptrdiff_t(from), chain.end());
  std::vector<uint32_t> versions(keys.size(), 0);
  if (random_.chance(options_.other_bytes)) std::fill(versions.begin(), versions.end(), 1 + random_.below(3));
  ++result_.operations;
  auto store = cluster_.client(client).begin_store(std::move(keys), std::move(versions), from ? chain[from - 1] : "", Duration(0), [this, i](const Operation& store) {
    result_.blocks_stored += store.count(Code::ok);
    result_.no_space += store.count(Code::no_space);
    finish_turn(i);
  });
  store->on_abort = [this, i] { finish_turn(i); };
}

void Workload::finish_turn(size_t i) {
  after(Duration(random_.below(uint64_t(options_.think_max.count()))), [this, i] { turn(i); });
}

}  // namespace millpond::sim
