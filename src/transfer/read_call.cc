#include "transfer/read_call.h"

#include <numeric>

#include "base/log.h"
#include "base/reached.h"
#include "transfer/batches.h"
#include "wire/message.h"

namespace millpond::transfer {
namespace {
constexpr Duration kRecheckDeadline = std::chrono::seconds(2);   // the owner hashes its copy; nobody waits for it here
constexpr size_t kDrainBytes = 256 << 10;
}  // namespace

struct ReadCall::Check {
  Batch batch;
  ByteVector body;                       // `answer` points into it
  ReadAnswer answer;
  size_t at = 0;                         // in batch.positions
  std::optional<BlockCheck> block;
  std::vector<uint32_t> again;           // did not verify the first time
  std::vector<uint32_t> left_out;        // the answer was full
  std::vector<BlockId> corrupt;
};

ReadCall::ReadCall(std::shared_ptr<Way> way, std::vector<ReadItem> items, Time deadline, Done done)
    : way_(way), runtime_(way->runtime), items_(std::move(items)), deadline_(deadline), done_(std::move(done)),
      outcomes_(items_.size(), {Code::unavailable, 0}) {
  room_.reserve(items_.size());
  for (auto& item : items_) room_.push_back(total_bytes(item.target));
}

void ReadCall::start() {
  std::vector<uint32_t> all(items_.size());
  std::iota(all.begin(), all.end(), 0);
  for (auto& positions : cut(all, [&](uint32_t i) { return Weight{.payload = room_[i], .message = sizeof(BlockId)}; }))
    queue_.push_back({std::move(positions)});
  runtime_.post([self = shared_from_this()] { self->pump(); });
}

void ReadCall::pump() {
  while (!queue_.empty() && in_flight_ < kBatchesInFlight) {
    auto batch = std::move(queue_.front());
    queue_.pop_front();
    send(std::move(batch));
  }
  if (in_flight_ == 0 && queue_.empty() && done_) std::exchange(done_, nullptr)(std::move(outcomes_));
}

void ReadCall::send(Batch batch) {
  auto way = way_.lock();
  if (!way) return;                      // outcomes stay unavailable
  std::vector<BlockId> ids;
  for (auto i : batch.positions) ids.push_back(items_[i].key.id);
  wire::Builder builder;
  rpc::Message request{.kind = wire::Kind::read};
  request.body = wire::finish(builder, wire::CreateRead(builder, wire::ids(builder, ids), way->places()));
  ++in_flight_;
  auto shared = std::make_shared<Batch>(std::move(batch));
  rpc::LandReply land;
  if (!way->places())
    land = [self = shared_from_this(), shared](wire::Kind kind, ByteSpan body, uint64_t payload_bytes) {
      return self->land(*shared, kind, body, payload_bytes);
    };
  way->channel()->call(std::move(request), deadline_, std::move(land),
                       [self = shared_from_this(), shared](Result<rpc::Reply> reply) {
    self->answered(std::move(*shared), std::move(reply));
  });
}

Result<rpc::Landing> ReadCall::land(const Batch& batch, wire::Kind kind, ByteSpan body, uint64_t payload_bytes) {
  MP_TRY(auto answer, parse_read_reply(kind, body, batch.positions.size()));
  if (answer.total_bytes != payload_bytes)
    return error(Code::corrupt, "blocks of {} bytes, payload of {}", answer.total_bytes, payload_bytes);
  rpc::Landing landing;
  std::shared_ptr<ByteVector> drain;
  for (size_t k = 0; k < batch.positions.size(); ++k) {
    auto& block = answer.blocks[k];
    uint32_t i = batch.positions[k];
    if (!block.here) continue;
    if (block.length <= room_[i]) {
      auto pieces = first_bytes(items_[i].target, block.length);
      landing.pieces.insert(landing.pieces.end(), pieces.begin(), pieces.end());
      continue;
    }
    // Larger than its target: these bytes pass through one scratch buffer, the other blocks of the batch still land.
    MP_REACHED("transfer: target too small");
    if (!drain) drain = std::make_shared<ByteVector>(kDrainBytes);
    for (uint64_t left = block.length; left > 0;) {
      uint64_t step = std::min<uint64_t>(left, drain->size());
      landing.pieces.push_back(MutableByteSpan(drain->data(), step));
      left -= step;
    }
  }
  landing.state = drain;
  return landing;
}

void ReadCall::answered(Batch batch, Result<rpc::Reply> reply) {
  auto way = way_.lock();
  auto fail = [&](Code code) {
    if (way && code == Code::timed_out) way->counters.late.add(batch.positions.size());
    for (auto i : batch.positions) settle(i, code);
    --in_flight_;
    pump();
  };
  if (!reply) {
    if (way && reply.error().code() == Code::corrupt) way->complain(reply.error());
    return fail(outcome_of(reply.error().code()));
  }
  auto check = std::make_shared<Check>();
  check->body = std::move(reply->body);
  auto answer = parse_read_reply(reply->kind, check->body, batch.positions.size());
  uint64_t expected = answer && way && !way->places() ? answer->total_bytes : 0;
  if (!answer || reply->payload_bytes != expected) {
    MP_REACHED("transfer: bad read reply");
    if (way) way->complain(answer ? Status(Code::corrupt, "payload of {} bytes where blocks have {}", reply->payload_bytes, expected)
                                  : answer.error());
    return fail(Code::unavailable);
  }
  check->answer = *std::move(answer);
  check->batch = std::move(batch);
  verify(std::move(check));
}

void ReadCall::verify(std::shared_ptr<Check> check) {
  auto way = way_.lock();
  uint64_t budget = kSliceBytes;
  while (check->at < check->batch.positions.size()) {
    uint32_t i = check->batch.positions[check->at];
    auto& block = check->answer.blocks[check->at];
    if (!way) {
      settle(i, Code::unavailable), ++check->at;
      continue;
    }
    if (!block.here) {
      if (block.ask_again) check->left_out.push_back(i);
      settle(i, block.ask_again ? Code::unavailable : Code::miss), ++check->at;
      continue;
    }
    if (block.length > room_[i]) {
      settle(i, Code::invalid, block.length), ++check->at;
      continue;
    }
    if (!check->block) {
      auto target = first_bytes(items_[i].target, block.length);
      if (way->places()) {
        auto source = way->source(check->answer, block);
        if (!source) {                   // never copy from where the mapping does not reach
          MP_REACHED("transfer: places outside the mapping");
          way->complain(source.error());
          settle(i, Code::unavailable), ++check->at;
          continue;
        }
        check->block.emplace(*std::move(source), std::move(target), block.length, block.sums, block.root, items_[i].key.seed);
      } else {
        check->block.emplace(std::move(target), block.length, block.sums, block.root, items_[i].key.seed);
      }
    }
    auto verdict = BlockCheck::Verdict::unfinished;
    while (verdict == BlockCheck::Verdict::unfinished) {
      uint64_t bytes = check->block->slice_bytes();
      if (bytes > budget) {              // let others have the loop
        runtime_.post([self = shared_from_this(), check] { self->verify(check); });
        return;
      }
      if (runtime_.now() >= deadline_) break;
      verdict = check->block->step();
      budget -= bytes;
    }
    check->block.reset();
    ++check->at;
    if (verdict == BlockCheck::Verdict::good) {
      settle(i, Code::ok, block.length);
      way->counters.blocks_read.add(), way->counters.bytes_read.add(block.length);
    } else if (verdict == BlockCheck::Verdict::unfinished) {
      settle(i, Code::timed_out);
      way->counters.late.add();
    } else if (!check->batch.again) {
      check->again.push_back(i);
    } else {
      settle(i, Code::corrupt);
      check->corrupt.push_back(items_[i].key.id);
    }
  }
  verified(*check);
}

void ReadCall::verified(Check& check) {
  auto way = way_.lock();
  if (!check.again.empty()) {
    // A page may have been reused under a copy, or a bit flipped on the way: the second answer is a miss or verifies.
    MP_REACHED("transfer: asked once more");
    if (way) way->counters.retries.add(check.again.size());
    queue_.push_front({std::move(check.again), true});
  }
  if (!check.left_out.empty() && check.left_out.size() < check.batch.positions.size()) {   // else: no progress
    MP_REACHED("transfer: answer was full");
    queue_.push_front({std::move(check.left_out), check.batch.again});
  }
  if (!check.corrupt.empty()) {
    MP_REACHED("transfer: corrupt twice");
    if (way) way->counters.corrupt.add(check.corrupt.size());
    log::warn("transfer: {} blocks did not verify twice, first {}; their owner hashes its copies", check.corrupt.size(),
              text(check.corrupt.front()));
    recheck(std::move(check.corrupt));
  }
  --in_flight_;
  pump();
}

void ReadCall::recheck(std::vector<BlockId> ids) {
  if (auto way = way_.lock()) send_recheck(way, std::move(ids), runtime_.now() + kRecheckDeadline, [](std::vector<Code>) {});
}

}  // namespace millpond::transfer
