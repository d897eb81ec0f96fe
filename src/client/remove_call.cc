#include "client/remove_call.h"

#include <algorithm>

#include "base/log.h"
#include "base/reached.h"
#include "wire/limits.h"

namespace millpond::client {

RemoveCall::RemoveCall(std::shared_ptr<Core> core, std::vector<std::string> keys, Time deadline, Done done)
    : core_(std::move(core)), keys_(std::move(keys)), deadline_(deadline), done_(std::move(done)) {}

void RemoveCall::start() {
  for (size_t i = 0; i < keys_.size(); ++i)
    if (auto status = check_key(keys_[i]); !status.ok()) return finish(error(Code::invalid, "key {}: {}", i, status.message()));
  std::sort(keys_.begin(), keys_.end());
  keys_.erase(std::unique(keys_.begin(), keys_.end()), keys_.end());
  if (keys_.empty()) return finish(size_t(0));
  ask_next();
}

void RemoveCall::ask_next() {
  size_t asked = std::min<size_t>(keys_.size() - at_, wire::kIdsPerMessageMax);
  auto space = core_->space();
  std::vector<BlockId> ids;
  for (size_t k = 0; k < asked; ++k) ids.push_back(hash_key(space, keys_[at_ + k]).id);
  wire::Builder builder;
  auto body = wire::finish(builder, wire::CreateRemove(builder, space.generation, wire::ids(builder, ids)));
  core_->ask_master(wire::Kind::remove, std::move(body), wire::Kind::remove_reply, deadline_,
                    [self = shared_from_this(), asked](Result<rpc::Reply> reply) { self->answered(asked, std::move(reply)); });
}

void RemoveCall::answered(size_t asked, Result<rpc::Reply> reply) {
  if (!reply) return finish(error(reply.error()));
  auto parsed = wire::parse<wire::RemoveReply>(reply->body);
  if (!parsed) return finish(error(parsed.error()));
  auto& answer = **parsed;
  if (Code(answer.code()) == Code::stale && !hashed_again_) {
    MP_REACHED("client: remove hashed again");
    core_->counters.stale.add();
    core_->learn_generation(answer.generation());
    hashed_again_ = true;
    return ask_next();
  }
  if (Code(answer.code()) != Code::ok) return finish(error(Code(answer.code()), "the master answered {}", name(Code(answer.code()))));
  if (answer.unconfirmed_nodes() > 0)
    log::info("client: {} nodes did not confirm a removal yet; they apply it when they answer again", answer.unconfirmed_nodes());
  removed_ += answer.removed();
  at_ += asked;
  if (at_ < keys_.size()) return ask_next();
  finish(removed_);
}

void RemoveCall::finish(Result<size_t> result) {
  core_->runtime.post([done = std::move(done_), result = std::move(result)]() mutable { done(std::move(result)); });
}

}  // namespace millpond::client
