#include "client/client.h"

#include "client/core.h"
#include "client/load_call.h"
#include "client/lookup_call.h"
#include "client/remove_call.h"
#include "client/store_call.h"

namespace millpond::client {

struct Client::State : Core {
  using Core::Core;
};

Client::Client(Options options, rpc::Runtime& runtime, Metrics& metrics, std::shared_ptr<transfer::Owner> local, NodeId local_id)
    : state_(std::make_shared<State>(std::move(options), runtime, metrics, std::move(local), local_id)) {}

Client::~Client() { state_->close(); }

void Client::open(Time deadline, std::function<void(Status)> done) { state_->open(deadline, std::move(done)); }

void Client::lookup(std::vector<std::string> keys, Time deadline, std::function<void(Result<Plan>)> done) {
  std::make_shared<LookupCall>(state_, std::move(keys), false, deadline, std::move(done))->start();
}

void Client::locate(std::vector<std::string> keys, Time deadline, std::function<void(Result<Plan>)> done) {
  std::make_shared<LookupCall>(state_, std::move(keys), true, deadline, std::move(done))->start();
}

void Client::load(std::vector<LoadItem> items, Time deadline, std::function<void(std::vector<LoadOutcome>)> done) {
  std::make_shared<LoadCall>(state_, std::move(items), deadline, std::move(done))->start();
}

void Client::load(const Plan& plan, std::vector<LoadItem> items, Time deadline, std::function<void(std::vector<LoadOutcome>)> done) {
  std::make_shared<LoadCall>(state_, std::move(items), deadline, std::move(done))->start(plan);
}

void Client::store(std::vector<StoreItem> items, Time deadline, std::function<void(std::vector<StoreOutcome>)> done) {
  std::make_shared<StoreCall>(state_, std::move(items), deadline, std::move(done))->start();
}

void Client::remove(std::vector<std::string> keys, Time deadline, std::function<void(Result<size_t>)> done) {
  std::make_shared<RemoveCall>(state_, std::move(keys), deadline, std::move(done))->start();
}

void Client::remove_all(Time deadline, std::function<void(Status)> done) {
  auto core = state_;
  wire::Builder builder;
  auto tenant = builder.CreateString(core->options.tenant), name = builder.CreateString(core->options.namespace_name);
  auto body = wire::finish(builder, wire::CreateRemoveAll(builder, tenant, name, core->space().generation));
  core->ask_master(wire::Kind::remove_all, std::move(body), wire::Kind::remove_all_reply, deadline,
                   [core, done = std::move(done)](Result<rpc::Reply> reply) {
    if (!reply) return done(reply.error());
    auto parsed = wire::parse<wire::RemoveAllReply>(reply->body);
    if (!parsed) return done(parsed.error());
    core->learn_generation((*parsed)->generation());
    auto code = Code((*parsed)->code());
    done(code == Code::ok ? Status() : Status(code, "the master answered {}", millpond::name(code)));
  });
}

void Client::explain(std::string key, Time deadline, std::function<void(Result<std::string>)> done) {
  auto core = state_;
  if (auto status = check_key(key); !status.ok())
    return core->runtime.post([done = std::move(done), status] { done(error(status)); });
  auto id = wire::id_of(hash_key(core->space(), key).id);
  wire::Builder builder;
  auto body = wire::finish(builder, wire::CreateExplain(builder, &id));
  core->ask_master(wire::Kind::explain, std::move(body), wire::Kind::explain_reply, deadline,
                   [core, done = std::move(done)](Result<rpc::Reply> reply) {
    if (!reply) return done(error(reply.error()));
    auto parsed = wire::parse<wire::ExplainReply>(reply->body);
    if (!parsed) return done(error(parsed.error()));
    auto& answer = **parsed;
    std::string text(wire::text_of(answer.reason()));
    if (!wire::text_of(answer.node()).empty()) text += fmt::format(" at node {}", wire::text_of(answer.node()));
    if (answer.seconds_ago() > 0) text += fmt::format(", {:.1f} s ago", answer.seconds_ago());
    done(std::move(text));
  });
}

void Client::stat(Time deadline, std::function<void(Result<std::string>)> done) {
  auto core = state_;
  wire::Builder builder;
  auto body = wire::finish(builder, wire::CreateStat(builder));
  core->ask_master(wire::Kind::stat, std::move(body), wire::Kind::stat_reply, deadline, [done = std::move(done)](Result<rpc::Reply> reply) {
    if (!reply) return done(error(reply.error()));
    auto parsed = wire::parse<wire::StatReply>(reply->body);
    if (!parsed) return done(error(parsed.error()));
    done(std::string(wire::text_of((*parsed)->json())));
  });
}

Duration Client::move_deadline(uint64_t bytes) const {
  auto& o = state_->options;
  return o.move_deadline + std::chrono::duration_cast<Duration>(std::chrono::duration<double>(double(bytes) / double(std::max<uint64_t>(o.move_rate, 1))));
}

const Options& Client::options() const { return state_->options; }

}  // namespace millpond::client
