#include "millpond/pool.h"

#include <algorithm>
#include <cstdlib>
#include <random>

#include "base/log.h"
#include "base/metrics.h"
#include "base/reached.h"
#include "client/client.h"
#include "node/node.h"
#include "pool/answer.h"
#include "rpc/address.h"
#include "rpc/asio_runtime.h"
#include "wire/message.h"

namespace millpond {

static_assert(uint8_t(Outcome::internal) == uint8_t(Code::internal) && uint8_t(Outcome::corrupt) == uint8_t(Code::corrupt) &&
              uint8_t(Outcome::exists) == uint8_t(Code::exists) && uint8_t(Outcome::miss) == uint8_t(Code::miss));

const char* name(Outcome outcome) { return name(Code(outcome)).data(); }   // of literals: ended by 0

namespace {

using Milliseconds = std::chrono::milliseconds;
using std::chrono::nanoseconds;

// Below us every call ends by its deadline; a call that touches no memory of the caller returns so much later anyhow.
constexpr nanoseconds kGrace = Milliseconds(250);
constexpr nanoseconds kOpenPause = Milliseconds(50);
const char* const kTiers[] = {"dram", "ssd"};

[[noreturn]] void throw_error(Code code, std::string message) { throw Error{Outcome(code), std::move(message)}; }

uint64_t random_number() {
  std::random_device device;
  return uint64_t(device()) << 32 | device();
}

std::vector<Found> found_in(const client::Plan& plan, size_t count) {
  std::vector<Found> blocks(count);
  for (size_t i = 0; i < count; ++i) {
    blocks[i].length = plan.lengths[i];
    for (auto& r : plan.replicas[i]) blocks[i].replicas.push_back({r.node_name, r.address, r.tier < std::size(kTiers) ? kTiers[r.tier] : "?"});
  }
  return blocks;
}

client::Options client_options(const PoolOptions& options) {
  client::Options made{.master = options.master, .tenant = options.tenant, .namespace_name = options.namespace_name,
                       .transports = transfer::transports_from_environment()};
  if (!options.transports.empty()) {
    auto parsed = transfer::parse_transports(options.transports);
    if (!parsed) throw_error(Code::invalid, "transports: " + parsed.error().message());
    made.transports = *parsed;
  }
  if (auto address = rpc::parse_address(options.master); !address) throw_error(Code::invalid, "master: " + address.error().message());
  return made;
}

std::string key_of_cluster(const PoolOptions& options) {
  const char* from_environment = std::getenv("MILLPOND_CLUSTER_KEY");
  return !options.cluster_key.empty() ? options.cluster_key : from_environment ? from_environment : "";
}

}  // namespace

struct Pool::State {
  // Ends in the reverse order: client, node, runtime, metrics.
  Metrics metrics;
  std::unique_ptr<rpc::AsioRuntime> runtime;
  std::unique_ptr<node::Node> node;
  std::unique_ptr<client::Client> client;

  nanoseconds limit(Deadline asked, nanoseconds normal) const {
    return asked.count() <= 0 ? normal : bounded(asked);
  }

  // Waits for a call that touches no memory of the caller.
  template <typename T, typename Call>
  T ask(nanoseconds limit, T too_late, Call call) {
    Answer<T> answer;
    call(runtime->now() + limit, answer.callback());
    auto value = answer.wait(limit + kGrace);
    if (value) return *std::move(value);
    MP_REACHED("pool: no answer by the deadline");
    return too_late;
  }

  // Waits for a call that reads or writes memory of the caller: until it has ended, which is by its deadline.
  template <typename T, typename Call>
  T move(const char* what, nanoseconds limit, Call call) {
    Answer<T> answer;
    call(runtime->now() + limit, answer.callback());
    for (auto patience = limit + kGrace;; patience = std::chrono::seconds(10)) {
      if (auto value = answer.wait(patience)) return *std::move(value);
      MP_REACHED("pool: waits beyond the deadline");
      log::error("pool: a {} is late; its memory may still be in use, so it is waited for", what);
    }
  }

  // The master must answer once before there is a pool: a wrong address is told at once, not as a thousand misses.
  void reach_master(const PoolOptions& options) {
    auto start = runtime->now();
    nanoseconds limit = bounded(options.open_deadline);
    Status last;
    for (auto left = limit; left > left.zero(); left = limit - (runtime->now() - start)) {
      last = ask<Status>(left, Status(Code::timed_out, "no answer"), [&](Time by, auto done) { client->open(by, std::move(done)); });
      if (last.ok()) return;
      if (last.code() != Code::unavailable && last.code() != Code::timed_out) break;
      Answer<bool> pause;
      auto timer = runtime->after(std::min(kOpenPause, left), [done = pause.callback()] { done(true); });
      pause.wait(left);
    }
    if (last.code() == Code::unavailable || last.code() == Code::timed_out)
      throw_error(Code::unavailable, fmt::format("no master answers at {} within {} ms ({}); start one with \"millpond master --listen {}\", or "
                                                 "give the address of the one that runs",
                                                 options.master, options.open_deadline.count(), last.message(), options.master));
    throw_error(last.code(), fmt::format("the master at {} does not take us: {}", options.master, last.text()));
  }

  // Stores are visible to others only once our node has joined.
  void wait_for_join(nanoseconds limit) {
    for (auto start = runtime->now(); runtime->now() - start < limit;) {
      Answer<bool> joined;
      auto timer = runtime->after(Milliseconds(2), [this, done = joined.callback()] { done(node->state().joined); });
      if (joined.wait(limit).value_or(false)) return;
    }
    MP_REACHED("pool: node not joined");
    log::warn("pool: this process's node has not joined the cluster yet; what it stores is visible to others once it has");
  }
};

Pool::Pool() : state_(std::make_unique<State>()) {}
Pool::~Pool() = default;

std::unique_ptr<Pool> Pool::open(PoolOptions options) {
  auto settings = client_options(options);
  std::unique_ptr<Pool> pool(new Pool);
  auto& state = *pool->state_;
  bool embedded = options.memory_bytes > 0;
  rpc::AsioRuntime::Options runtime;
  runtime.identity = {.role = uint8_t(embedded ? wire::Role::node : wire::Role::client), .cluster_id = options.cluster_id,
                      .tenant = options.tenant, .cluster_key = key_of_cluster(options)};
  if (embedded) {
    runtime.identity.node_id = NodeId(std::max<uint64_t>(random_number(), 1));
    runtime.identity.node_epoch = NodeEpoch(uint64_t(std::chrono::duration_cast<nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count()));
  }
  NodeId local_id = runtime.identity.node_id;
  auto made = rpc::AsioRuntime::create(std::move(runtime), state.metrics);
  if (!made) throw_error(made.error().code(), made.error().message());
  state.runtime = *std::move(made);
  std::shared_ptr<transfer::Owner> local;
  if (embedded) {
    node::Options node{.master = options.master, .listen = options.listen};
    node.dram.capacity = Bytes{options.memory_bytes};
    auto started = node::Node::start(std::move(node), *state.runtime, state.metrics);
    if (!started) throw_error(started.error().code(), "the node in this process: " + started.error().message());
    state.node = *std::move(started);
    local = state.node->owner();
  }
  state.client = std::make_unique<client::Client>(std::move(settings), *state.runtime, state.metrics, std::move(local), local_id);
  state.reach_master(options);
  if (embedded) state.wait_for_join(bounded(options.open_deadline));
  return pool;
}

Lookup Pool::lookup(std::span<const std::string> keys, Deadline deadline) {
  auto plan = state_->ask<Result<client::Plan>>(
      state_->limit(deadline, state_->client->options().lookup_deadline), error(Code::timed_out, "no answer"),
      [&](Time by, auto done) { state_->client->lookup({keys.begin(), keys.end()}, by, std::move(done)); });
  if (!plan) return {.outcome = Outcome(plan.error().code())};
  Lookup found{.matched = plan->matched, .warming = plan->warming, .blocks = found_in(*plan, plan->matched)};
  found.plan = std::make_shared<client::Plan>(*std::move(plan));
  return found;
}

std::vector<Found> Pool::locate(std::span<const std::string> keys, Deadline deadline) {
  auto plan = state_->ask<Result<client::Plan>>(
      state_->limit(deadline, state_->client->options().lookup_deadline), error(Code::timed_out, "no answer"),
      [&](Time by, auto done) { state_->client->locate({keys.begin(), keys.end()}, by, std::move(done)); });
  return plan ? found_in(*plan, keys.size()) : std::vector<Found>(keys.size());
}

std::vector<LoadAnswer> Pool::load(std::span<const LoadBlock> blocks, Deadline deadline) { return load({}, blocks, deadline); }

std::vector<LoadAnswer> Pool::load(const Lookup& found, std::span<const LoadBlock> blocks, Deadline deadline) {
  std::vector<client::LoadItem> items;
  uint64_t bytes = 0;
  for (auto& block : blocks) {
    items.push_back({block.key, {block.pieces.begin(), block.pieces.end()}});
    bytes += total_bytes(items.back().pieces);
  }
  auto outcomes = state_->move<std::vector<client::LoadOutcome>>("load", state_->limit(deadline, state_->client->move_deadline(bytes)), [&](Time by, auto done) {
    if (found.plan) state_->client->load(*static_cast<const client::Plan*>(found.plan.get()), std::move(items), by, std::move(done));
    else state_->client->load(std::move(items), by, std::move(done));
  });
  std::vector<LoadAnswer> answers;
  for (auto& o : outcomes) answers.push_back({Outcome(o.code), o.length, std::move(o.owner), o.transport});
  return answers;
}

std::vector<Outcome> Pool::store(std::span<const StoreBlock> blocks, Deadline deadline) {
  std::vector<client::StoreItem> items;
  uint64_t bytes = 0;
  for (auto& block : blocks) {
    items.push_back({block.key, {block.pieces.begin(), block.pieces.end()}, block.parent});
    bytes += total_bytes(items.back().pieces);
  }
  auto outcomes = state_->move<std::vector<client::StoreOutcome>>("store", state_->limit(deadline, state_->client->move_deadline(bytes)), [&](Time by, auto done) {
    state_->client->store(std::move(items), by, std::move(done));
  });
  std::vector<Outcome> answers;
  for (auto& o : outcomes) answers.push_back(Outcome(o.code));
  return answers;
}

size_t Pool::remove(std::span<const std::string> keys, Deadline deadline) {
  auto removed = state_->ask<Result<size_t>>(
      state_->limit(deadline, state_->client->options().move_deadline), error(Code::timed_out, "no answer"),
      [&](Time by, auto done) { state_->client->remove({keys.begin(), keys.end()}, by, std::move(done)); });
  if (!removed) log::warn("pool: nothing was removed: {}", removed.error().text());
  return removed.value_or(0);
}

Outcome Pool::remove_all(Deadline deadline) {
  auto status = state_->ask<Status>(state_->limit(deadline, state_->client->options().move_deadline), Status(Code::timed_out),
                                    [&](Time by, auto done) { state_->client->remove_all(by, std::move(done)); });
  return Outcome(status.code());
}

std::string Pool::explain(const std::string& key, Deadline deadline) {
  auto words = state_->ask<Result<std::string>>(
      state_->limit(deadline, state_->client->options().move_deadline), error(Code::timed_out, "no answer"),
      [&](Time by, auto done) { state_->client->explain(key, by, std::move(done)); });
  return words ? *words : "not known: " + words.error().text();
}

std::string Pool::stat_json(Deadline deadline) {
  auto json = state_->ask<Result<std::string>>(
      state_->limit(deadline, state_->client->options().move_deadline), error(Code::timed_out, "no answer"),
      [&](Time by, auto done) { state_->client->stat(by, std::move(done)); });
  if (json) return *json;
  std::string reason;
  for (char c : json.error().text())
    if (c == '"' || c == '\\') reason += '\\', reason += c;
    else reason += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  return "{\"error\": \"" + reason + "\"}";
}

}  // namespace millpond
