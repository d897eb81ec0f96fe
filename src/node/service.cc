#include "node/service.h"

#include <algorithm>

#include "base/log.h"
#include "base/reached.h"
#include "node/aligned.h"
#include "node/master_link.h"
#include "node/shared.h"
#include "wire/limits.h"
#include "wire/message.h"

namespace millpond::node {

DataService::DataService(Shared& shared)
    : shared_(shared), reservations_({.bytes_max = Bytes{shared.tier->usage().capacity.count / 4}}), scratch_(1 << 20) {}

void DataService::serve(rpc::Request request, std::shared_ptr<rpc::Responder> responder) {
  Result<void> result;
  switch (request.kind) {
    case wire::Kind::read: result = serve_read(request, responder); break;
    case wire::Kind::store: result = serve_store(request, responder); break;
    case wire::Kind::reserve: result = serve_reserve(request, responder); break;
    case wire::Kind::commit: result = serve_commit(request, responder); break;
    case wire::Kind::recheck: result = serve_recheck(request, responder); break;
    case wire::Kind::apply_removals: result = serve_removals(request, responder); break;
    case wire::Kind::touch: result = serve_touch(request, responder); break;
    case wire::Kind::stat: {
      wire::Builder builder;
      auto json = builder.CreateString(shared_.state_json());
      responder->answer({.kind = wire::Kind::stat_reply, .body = wire::finish(builder, wire::CreateStatReply(builder, json))});
      break;
    }
    default: result = error(Code::invalid, "a node does not answer {}: ask the master", wire::name(request.kind));
  }
  if (result) return;
  Status& status = result.error();
  if (status.code() == Code::invalid || status.code() == Code::corrupt) shared_.counters.requests_bad.add();
  responder->fail(std::move(status));
}

void DataService::closed(ConnectionId connection) {
  size_t returned = reservations_.closed(connection);
  if (returned == 0) return;
  MP_REACHED("node: reservations return with their connection");
  shared_.counters.reservations_returned.add(returned);
  log::info("node {}: a writer's connection ended; {} reservations returned", shared_.name, returned);
}

Result<void> DataService::serve_read(const rpc::Request& request, const Answerer& responder) {
  MP_TRY(const wire::Read* read, wire::parse<wire::Read>(request.body));
  bool places = read->places();
  if (places && !request.caller.same_host) return error(Code::invalid, "places are for callers on the same host (Unix socket); {} is not", request.caller.address);
  auto ids = aligned<BlockId>(read->ids());
  if (ids.size() > wire::kIdsPerMessageMax) return error(Code::invalid, "{} ids in one read; {} at most", ids.size(), wire::kIdsPerMessageMax);

  Time now = shared_.runtime.now();
  std::vector<wire::ReadBlock> blocks;
  std::vector<uint64_t> sums;
  std::vector<uint32_t> pages;
  rpc::Message reply{.kind = wire::Kind::read_reply};
  blocks.reserve(ids.size());
  uint64_t payload = 0;
  // What one answer may hold; the rest is `overloaded`: ask again for those.
  const uint64_t entries_max = (wire::kMessageBytesMax - (1 << 20) - ids.size() * sizeof(wire::ReadBlock)) / sizeof(uint64_t);
  uint64_t found = 0;
  for (auto& id : ids) {
    auto view = shared_.tier->find(id, now);
    Code code = view ? Code::ok : Code::miss;
    if (view && (sums.size() + pages.size() + view->sums.size() + view->places.pages.size() > entries_max || (!places && payload + view->length > wire::kPayloadBytesMax))) {
      MP_REACHED("node: read answer is full");
      code = Code::overloaded;
    }
    if (code != Code::ok) {
      shared_.counters.read_misses.add(code == Code::miss);
      blocks.emplace_back(0, 0, 0, 0, 0, 0, 0, 0, uint8_t(code), 0, 0);
      continue;
    }
    ++found;
    payload += view->length;
    uint32_t page_count = places ? uint32_t(view->places.pages.size()) : 0;
    blocks.emplace_back(view->root, view->generation.value, view->length, uint32_t(sums.size()), uint32_t(pages.size()), page_count, places ? view->places.offset : 0,
                        view->places.arena.value, uint8_t(Code::ok), /*tier=*/0, 0);
    sums.insert(sums.end(), view->sums.begin(), view->sums.end());
    if (places) {
      for (auto page : view->places.pages) pages.push_back(page.value);
    } else {
      reply.payload.insert(reply.payload.end(), view->pieces.begin(), view->pieces.end());
    }
  }
  wire::Builder builder(blocks.size() * sizeof(wire::ReadBlock) + sums.size() * 8 + pages.size() * 4 + 256);
  auto blocks_vector = wire::structs(builder, std::span<const wire::ReadBlock>(blocks));
  auto sums_vector = builder.CreateVector(sums);
  auto pages_vector = builder.CreateVector(pages);
  reply.body = wire::finish(builder, wire::CreateReadReply(builder, blocks_vector, sums_vector, pages_vector, shared_.page_bytes()));
  reply.keep = shared_.shared_from_this();   // the arena stays mapped while it is sent
  (places ? shared_.counters.read_blocks_shm : shared_.counters.read_blocks_tcp).add(found);
  (places ? shared_.counters.read_bytes_shm : shared_.counters.read_bytes_tcp).add(payload);
  responder->answer(std::move(reply));
  return {};
}

// Hashing takes the loop: a slice at a time, and not beyond the deadline.
Result<void> DataService::serve_recheck(const rpc::Request& request, const Answerer& responder) {
  MP_TRY(const wire::Recheck* recheck, wire::parse<wire::Recheck>(request.body));
  struct Work {
    std::vector<BlockId> ids;
    std::vector<uint8_t> codes;
    Time deadline;
    Answerer responder;
  };
  auto work = std::make_shared<Work>(Work{aligned<BlockId>(recheck->ids()), {}, shared_.answer_by(request.deadline), responder});
  if (work->ids.size() > wire::kIdsPerMessageMax) return error(Code::invalid, "{} ids in one recheck; {} at most", work->ids.size(), wire::kIdsPerMessageMax);
  struct Step {
    static void run(Shared& shared, std::shared_ptr<Work> work) {
      constexpr uint64_t kSliceBytes = 32 << 20;   // some 4 ms of hashing
      uint64_t hashed = 0;
      while (work->codes.size() < work->ids.size() && hashed < kSliceBytes) {
        if (shared.runtime.now() >= work->deadline) {
          work->codes.resize(work->ids.size(), uint8_t(Code::timed_out));
          break;
        }
        const BlockId& id = work->ids[work->codes.size()];
        auto view = shared.tier->find(id, shared.runtime.now(), /*peek=*/true);
        hashed += view ? view->length : 4096;
        work->codes.push_back(uint8_t(shared.recheck(id)));
      }
      if (work->codes.size() < work->ids.size()) {
        shared.runtime.post([weak = shared.weak_from_this(), work] {
          if (auto shared = weak.lock()) run(*shared, work);
        });
        return;
      }
      wire::Builder builder;
      auto codes = builder.CreateVector(work->codes);
      work->responder->answer({.kind = wire::Kind::recheck_reply, .body = wire::finish(builder, wire::CreateRecheckReply(builder, codes))});
    }
  };
  Step::run(shared_, work);
  return {};
}

Result<void> DataService::serve_removals(const rpc::Request& request, const Answerer& responder) {
  if (request.caller.role != uint8_t(wire::Role::master)) return error(Code::invalid, "removals come from the master; {} is none: ask the master to remove", request.caller.address);
  MP_TRY(const wire::ApplyRemovals* apply, wire::parse<wire::ApplyRemovals>(request.body));
  std::vector<std::pair<uint32_t, uint32_t>> generations;
  for (auto& g : aligned(apply->generations())) generations.emplace_back(g.namespace_id(), g.generation());
  auto records = aligned<Removal>(apply->removals());
  MP_TRY(uint64_t last, shared_.link->apply_removals(apply->term(), apply->after(), records, generations));
  wire::Builder builder;
  responder->answer({.kind = wire::Kind::apply_removals_reply, .body = wire::finish(builder, wire::CreateApplyRemovalsReply(builder, uint8_t(Code::ok), last))});
  return {};
}

Result<void> DataService::serve_touch(const rpc::Request& request, const Answerer& responder) {
  if (request.caller.role != uint8_t(wire::Role::master)) return error(Code::invalid, "touches come from the master; {} is none", request.caller.address);
  MP_TRY(const wire::Touch* touch, wire::parse<wire::Touch>(request.body));
  if (!shared_.link->accepts_term(touch->term())) return error(Code::stale, "a touch of a master of term {}; a later one has been seen", touch->term());
  Time now = shared_.runtime.now();
  for (auto& run : aligned(touch->runs())) shared_.tier->touch(wire::id_of(run.id()), run.length(), touch->protect(), now);
  wire::Builder builder;
  responder->answer({.kind = wire::Kind::touch_reply, .body = wire::finish(builder, wire::CreateTouchReply(builder, uint8_t(Code::ok)))});
  shared_.link->pump();
  return {};
}

namespace {

class Doorway : public rpc::Service {
 public:
  explicit Doorway(std::weak_ptr<Shared> shared) : shared_(std::move(shared)) {}
  Result<rpc::Landing> land(const rpc::Request& request) override {
    auto shared = here();
    if (!shared) return error(Code::unavailable, "this node has ended");
    return shared->service->land(request);
  }
  void serve(rpc::Request request, std::shared_ptr<rpc::Responder> responder) override {
    auto shared = here();
    if (!shared) return responder->fail(Status(Code::unavailable, "this node has ended"));
    shared->service->serve(std::move(request), std::move(responder));
  }
  void closed(ConnectionId connection) override {
    if (auto shared = shared_.lock()) shared->service->closed(connection);
  }

 private:
  std::shared_ptr<Shared> here() const {
    auto shared = shared_.lock();
    return shared && !shared->closed ? shared : nullptr;
  }
  std::weak_ptr<Shared> shared_;
};

}  // namespace

std::shared_ptr<rpc::Service> make_doorway(std::weak_ptr<Shared> shared) { return std::make_shared<Doorway>(std::move(shared)); }

}  // namespace millpond::node
