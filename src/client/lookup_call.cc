#include "client/lookup_call.h"

#include <algorithm>
#include <cstring>

#include "base/reached.h"
#include "wire/limits.h"

namespace millpond::client {

LookupCall::LookupCall(std::shared_ptr<Core> core, std::vector<std::string> keys, bool each, Time deadline, Done done)
    : core_(std::move(core)), each_(each), started_(core_->runtime.now()), deadline_(deadline), done_(std::move(done)) {
  plan_.keys = std::move(keys);
}

void LookupCall::start() {
  core_->counters.lookups.add();
  core_->counters.keys_asked.add(plan_.keys.size());
  for (size_t i = 0; i < plan_.keys.size(); ++i)
    if (auto status = check_key(plan_.keys[i]); !status.ok()) return finish(error(Code::invalid, "key {}: {}", i, status.message()));
  look_here();
}

void LookupCall::look_here() {
  size_t count = plan_.keys.size();
  auto space = core_->space();
  ids_.clear(), rest_.clear(), at_ = 0;
  for (auto& key : plan_.keys) ids_.push_back(hash_key(space, key).id);
  plan_.matched = 0;
  plan_.lengths.assign(count, 0);
  plan_.replicas.assign(count, {});
  std::vector<uint64_t> here;
  if (core_->local && core_->options.transports.local) here = core_->local->lengths_here(ids_);
  here.resize(count, 0);
  bool prefix = true;
  for (uint32_t i = 0; i < count; ++i) {
    if (here[i] > 0 && (each_ || prefix)) {
      plan_.lengths[i] = here[i];
      plan_.replicas[i].push_back(core_->located_here());
      ++plan_.matched;
      continue;
    }
    prefix = false;
    rest_.push_back(i);
  }
  if (rest_.empty()) {
    core_->counters.lookups_local.add();
    return finish(std::move(plan_));
  }
  if (core_->master_away()) return master_failed(Status(Code::unavailable, "the master at {} does not answer", core_->options.master));
  ask_next();
}

void LookupCall::ask_next() {
  size_t asked = std::min<size_t>(rest_.size() - at_, wire::kIdsPerMessageMax);
  std::vector<BlockId> ids;
  ids.reserve(asked);
  for (size_t k = 0; k < asked; ++k) ids.push_back(ids_[rest_[at_ + k]]);
  wire::Builder builder(ids.size() * sizeof(BlockId) + 64);
  auto body = wire::finish(builder, wire::CreateLookup(builder, core_->space().generation, wire::ids(builder, ids),
                                                       core_->view_version(), each_, true));
  core_->ask_master(wire::Kind::lookup, std::move(body), wire::Kind::lookup_reply, deadline_,
                    [self = shared_from_this(), asked](Result<rpc::Reply> reply) { self->answered(asked, std::move(reply)); });
}

void LookupCall::answered(size_t asked, Result<rpc::Reply> reply) {
  if (!reply) return master_failed(reply.error());
  auto parsed = wire::parse<wire::LookupReply>(reply->body);
  if (!parsed) return master_failed(parsed.error());
  auto& answer = **parsed;
  core_->learn(answer.view());
  if (Code(answer.code()) == Code::stale && !hashed_again_) {
    MP_REACHED("client: lookup hashed again");
    core_->counters.stale.add();
    core_->learn_generation(answer.generation());
    hashed_again_ = true;
    return look_here();
  }
  if (Code(answer.code()) != Code::ok) return master_failed(Status(Code(answer.code()), "the master answered {}", name(Code(answer.code()))));
  auto lengths = wire::span_of(answer.lengths());
  auto replicas = wire::span_of(answer.replicas());
  if (lengths.size() > asked || (!each_ && answer.matched() > lengths.size()) || (each_ && lengths.size() != asked))
    return master_failed(Status(Code::corrupt, "a lookup of {} blocks answered with {} lengths", asked, lengths.size()));
  for (auto& r : replicas) {
    if (r.block() >= lengths.size()) return master_failed(Status(Code::corrupt, "replica of block {} in an answer for {}", r.block(), lengths.size()));
    auto located = core_->located(r.node(), r.tier());
    if (located.node_id.value != 0) plan_.replicas[rest_[at_ + r.block()]].push_back(std::move(located));
  }
  plan_.warming |= answer.warming();
  size_t found = 0;
  for (size_t k = 0; k < lengths.size(); ++k) {
    uint32_t i = rest_[at_ + k];
    bool has = lengths[k] > 0 && !plan_.replicas[i].empty() && (each_ || k < answer.matched());
    if (!has && !each_) break;
    if (has) plan_.lengths[i] = lengths[k], ++found;
  }
  plan_.matched += found;
  at_ += asked;
  if (at_ < rest_.size() && (each_ || found == asked)) return ask_next();
  finish(std::move(plan_));
}

void LookupCall::master_failed(Status status) {
  if (plan_.matched > 0) {
    MP_REACHED("client: lookup without the master");
    return finish(std::move(plan_));     // what stands here can be loaded, whoever is away
  }
  core_->counters.lookups_failed.add();
  finish(error(std::move(status)));
}

void LookupCall::finish(Result<Plan> result) {
  core_->counters.lookup_seconds.add(core_->runtime.now() - started_);
  if (result) core_->counters.keys_found.add(result->matched);
  core_->runtime.post([done = std::move(done_), result = std::move(result)]() mutable { done(std::move(result)); });
}

}  // namespace millpond::client
