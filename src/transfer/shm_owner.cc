#include "transfer/shm_owner.h"

#include <algorithm>
#include <deque>
#include <numeric>

#include "base/log.h"
#include "base/reached.h"
#include "transfer/shm_way.h"
#include "transfer/way_owner.h"
#include "transfer/write_items.h"

namespace millpond::transfer {
namespace {

// A reservation ends by commit, abort or the end of the connection, never by a timer at the owner. So the answer to a
// Reserve is waited for beyond the writer's deadline, only to abort it; if even then none comes, we hang up.
constexpr Duration kLateReserve = std::chrono::seconds(5);

// One write(): reserve, copy and sum into the pages, commit. Lives on: the loop, after start().
class PlaceCall : public std::enable_shared_from_this<PlaceCall> {
 public:
  using Done = std::function<void(std::vector<WriteOutcome>)>;
  PlaceCall(const std::shared_ptr<ShmWay>& way, std::vector<WriteItem> items, Time deadline, bool visible, Done done)
      : way_(way), runtime_(way->runtime), items_(std::move(items)), deadline_(deadline), visible_(visible),
        done_(std::move(done)), outcomes_(items_.size()) {}

  void start() {
    std::vector<uint32_t> good;
    for (uint32_t i = 0; i < items_.size(); ++i) {
      if (can_be_stored(items_[i])) good.push_back(i);
      else outcomes_[i].code = Code::invalid;
    }
    for (auto& positions : cut(good, [&](uint32_t i) { return weight_of_write(items_[i]); })) {
      auto batch = std::make_shared<Batch>();
      batch->positions = std::move(positions);
      queue_.push_back(std::move(batch));
    }
    left_ = queue_.size();
    runtime_.post([self = shared_from_this()] {
      self->timer_ = self->runtime_.after(std::max(Duration(0), self->deadline_ - self->runtime_.now()),
                                          [weak = self->weak_from_this()] {
        if (auto call = weak.lock()) call->expired();
      });
      self->pump();
    });
  }

 private:
  struct Batch {
    std::vector<uint32_t> positions;
    std::weak_ptr<rpc::Channel> over;    // the pages are ours while this connection lasts
    std::vector<Code> codes;             // per position; ok: reserved, so far
    std::vector<wire::CommitItem> commit;   // of the reserved ones
    std::vector<uint32_t> committing;    // index into positions, for each of `commit`
    std::vector<uint64_t> sums;
    uint32_t generation = 0;
    ByteVector body;                     // of the ReserveReply
    size_t copied = 0;                   // of `committing`
    std::optional<PieceWalk<ByteSpan>> source;   // the block being copied
    std::optional<PieceWalk<MutableByteSpan>> target;
    uint64_t copy_left = 0;
    size_t sum_first = 0;
  };
  using BatchPtr = std::shared_ptr<Batch>;

  void pump() {
    while (!queue_.empty() && in_flight_ < kBatchesInFlight && done_) {
      auto batch = std::move(queue_.front());
      queue_.pop_front();
      ++in_flight_;
      reserve(batch);
    }
    if (left_ == 0) finish();
  }

  void finish() {
    timer_.reset();
    if (done_) std::exchange(done_, nullptr)(std::move(outcomes_));
  }

  // From here on no source is read: what is being copied stops at its next slice and is aborted.
  void expired() {
    if (!done_) return;
    MP_REACHED("transfer: shm write expired");
    size_t late = 0;
    for (auto& outcome : outcomes_)
      if (outcome.code == Code::unavailable) outcome.code = Code::timed_out, ++late;
    if (auto way = way_.lock()) way->counters.late.add(late);
    queue_.clear();
    held_back_.clear();
    finish();
  }

  // What found no room beside our own reservations (`overloaded`) goes once more, after some of them have ended.
  void settle(const BatchPtr& batch) {
    if (!done_) return;
    --in_flight_;
    auto again = std::make_shared<Batch>();
    bool stored = false;
    for (size_t k = 0; k < batch->positions.size(); ++k) {
      outcomes_[batch->positions[k]] = {batch->codes[k], batch->generation};
      stored |= batch->codes[k] == Code::ok;
      if (batch->codes[k] == Code::overloaded) again->positions.push_back(batch->positions[k]);
    }
    if (!again->positions.empty() && (stored || in_flight_ > 0)) {   // else: no progress
      MP_REACHED("transfer: no room beside our own");
      for (auto i : again->positions) outcomes_[i] = {};
      held_back_.push_back(std::move(again));
    } else {
      --left_;
    }
    if (stored || in_flight_ == 0)
      for (; !held_back_.empty(); held_back_.pop_front()) queue_.push_back(std::move(held_back_.front()));
    pump();
  }

  void reserve(const BatchPtr& batch) {
    batch->codes.assign(batch->positions.size(), Code::unavailable);
    auto way = way_.lock();
    if (!way) return settle(batch);
    auto packed = pack(items_, batch->positions, {});
    wire::Builder builder;
    rpc::Message request{.kind = wire::Kind::reserve};
    request.body = wire::finish(
        builder, wire::CreateReserve(builder, items_[batch->positions.front()].namespace_generation,
                                     wire::structs<wire::StoreItem>(builder, packed.items), builder.CreateVector(packed.keys)));
    auto late = deadline_ > Time::max() - kLateReserve ? Time::max() : deadline_ + kLateReserve;
    auto channel = way->channel();
    batch->over = channel;
    channel->call(std::move(request), late, nullptr, [self = shared_from_this(), batch](Result<rpc::Reply> reply) {
      self->reserved(batch, std::move(reply));
    });
  }

  void reserved(const BatchPtr& batch, Result<rpc::Reply> reply) {
    auto way = way_.lock();
    Status failure = reply ? take_answers(*batch, *reply) : reply.error();
    if (!failure.ok()) {
      std::fill(batch->codes.begin(), batch->codes.end(), outcome_of(failure.code()));
      // Whatever the owner has reserved for us, we cannot name it.
      if (way && (failure.code() == Code::timed_out || failure.code() == Code::corrupt)) way->hang_up();
      if (way && failure.code() == Code::corrupt) way->complain(failure);
      return settle(batch);
    }
    copy(batch);
  }

  // Checks the reply; fills codes and the list to commit.
  Status take_answers(Batch& batch, rpc::Reply& reply) {
    if (reply.kind != wire::Kind::reserve_reply) return Status(Code::corrupt, "a reserve was answered by {}", wire::name(reply.kind));
    batch.body = std::move(reply.body);
    auto parsed = wire::parse<wire::ReserveReply>(batch.body);
    if (!parsed) return parsed.error();
    auto answers = wire::span_of((*parsed)->answers());
    bool aligned = reinterpret_cast<uintptr_t>(answers.data()) % alignof(wire::ReserveAnswer) == 0;   // a vector of u32 always is
    if (answers.size() != batch.positions.size() || !aligned)
      return Status(Code::corrupt, "reserve of {} blocks answered for {}", batch.positions.size(), answers.size());
    batch.generation = (*parsed)->generation();
    for (uint32_t k = 0; k < answers.size(); ++k) {
      batch.codes[k] = code_of_peer(answers[k].code());
      if (batch.codes[k] != Code::ok) continue;
      batch.commit.emplace_back(answers[k].handle(), answers[k].generation(), 0, 0, uint8_t(1), uint8_t(0), uint16_t(0));
      batch.committing.push_back(k);
    }
    return {};
  }

  // Copies slice by slice; each block becomes `abort = 0` in the commit when it is whole.
  void copy(const BatchPtr& batch) {
    auto way = way_.lock();
    // Without its connection the owner has taken the pages back: they may hold another's block already.
    if (!way || batch->over.lock() != way->channel()) {
      MP_REACHED("transfer: connection gone under a copy");
      std::ranges::replace(batch->codes, Code::ok, Code::unavailable);
      return settle(batch);
    }
    uint64_t budget = kSliceBytes;
    while (done_ && batch->copied < batch->committing.size()) {
      uint32_t k = batch->committing[batch->copied];
      auto& item = items_[batch->positions[k]];
      uint64_t length = total_bytes(item.source);
      if (!batch->target && !open_target(*way, *batch, k, item, length)) continue;
      uint64_t bytes = std::min(batch->copy_left, kSliceBytes);
      if (bytes > budget) {
        runtime_.post([self = shared_from_this(), batch] { self->copy(batch); });
        return;
      }
      if (runtime_.now() >= deadline_) {
        expired();
        break;
      }
      auto sums = copy_and_sum(batch->source->take(bytes), batch->target->take(bytes));
      batch->sums.insert(batch->sums.end(), sums.begin(), sums.end());
      batch->copy_left -= bytes, budget -= bytes;
      if (batch->copy_left > 0) continue;
      std::span<const uint64_t> of_block(batch->sums.begin() + batch->sum_first, batch->sums.end());
      auto& commit = batch->commit[batch->copied];
      commit = wire::CommitItem(commit.handle(), commit.generation(), checksum_root(of_block, length, item.key.seed),
                                uint32_t(of_block.size()), 0, 0, 0);
      batch->target.reset();
      ++batch->copied;
    }
    if (!done_) return abort_all(*way, *batch);
    commit(*way, batch);
  }

  // False: these places are not in the mapping; the block is skipped, its reservation aborted with the commit.
  bool open_target(ShmWay& way, Batch& batch, uint32_t k, const WriteItem& item, uint64_t length) {
    auto* reply = *wire::parse<wire::ReserveReply>(batch.body);
    auto& answer = wire::span_of(reply->answers())[k];
    auto pages = wire::span_of(reply->pages());
    Result<memory::TargetPieces> target = error(Code::corrupt, "pages {} + {} of {}", answer.page_first(), answer.page_count(), pages.size());
    if (answer.page_first() <= pages.size() && answer.page_count() <= pages.size() - answer.page_first())
      target = way.target(answer.arena(), reply->page_bytes() ? reply->page_bytes() : KiB(64).count,
                          pages.subspan(answer.page_first(), answer.page_count()), answer.page_offset(), length);
    if (!target) {
      MP_REACHED("transfer: reserved places outside the mapping");
      way.complain(target.error());
      way.counters.reservations_aborted.add();
      batch.codes[k] = Code::unavailable;
      ++batch.copied;
      return false;
    }
    batch.source.emplace(item.source);
    batch.target.emplace(*std::move(target));
    batch.copy_left = length;
    batch.sum_first = batch.sums.size();
    return true;
  }

  void commit(ShmWay& way, const BatchPtr& batch) {
    if (batch->commit.empty()) return settle(batch);
    send_commit(way, *batch, deadline_, [self = shared_from_this(), batch](Result<rpc::Reply> reply) {
      self->committed(batch, std::move(reply));
    });
  }

  void committed(const BatchPtr& batch, Result<rpc::Reply> reply) {
    auto way = way_.lock();
    Code failure = reply ? Code::unavailable : outcome_of(reply.error().code());
    std::span<const uint8_t> answers;
    if (reply) {
      auto parsed = wire::parse<wire::CommitReply>(reply->body);
      if (parsed && reply->kind == wire::Kind::commit_reply) answers = wire::span_of((*parsed)->codes());
      if (way && answers.size() != batch->commit.size())
        way->complain(Status(Code::corrupt, "a commit of {} blocks was answered for {}", batch->commit.size(), answers.size()));
    }
    bool answered = answers.size() == batch->commit.size();
    for (size_t c = 0; c < batch->commit.size(); ++c) {
      uint32_t k = batch->committing[c];
      if (batch->codes[k] != Code::ok) continue;          // aborted
      batch->codes[k] = answered ? code_of_peer(answers[c]) : failure;
      if (!way || batch->codes[k] != Code::ok) continue;
      way->counters.blocks_written.add();
      way->counters.bytes_written.add(total_bytes(items_[batch->positions[k]].source));
    }
    if (!answered && way) abort_all(*way, *batch);         // if it was committed after all, the handle names nothing any more
    settle(batch);
  }

  void abort_all(ShmWay& way, Batch& batch) {
    if (batch.commit.empty()) return;
    MP_REACHED("transfer: reservations aborted");
    way.counters.reservations_aborted.add(batch.commit.size());
    for (auto& item : batch.commit) item = wire::CommitItem(item.handle(), item.generation(), 0, 0, 1, 0, 0);
    batch.sums.clear();
    send_commit(way, batch, runtime_.now() + kLateReserve, [weak = way_](Result<rpc::Reply> reply) {
      auto open = weak.lock();
      if (open && !reply && reply.error().code() == Code::timed_out) open->hang_up();
    });
  }

  void send_commit(ShmWay& way, Batch& batch, Time deadline, rpc::Done done) {
    // Sums of a block that was cut short belong to no item.
    uint64_t named = 0;
    for (auto& item : batch.commit) named += item.sum_count();
    batch.sums.resize(named);
    wire::Builder builder;
    rpc::Message request{.kind = wire::Kind::commit};
    request.body = wire::finish(builder, wire::CreateCommit(builder, wire::structs<wire::CommitItem>(builder, batch.commit),
                                                            builder.CreateVector(batch.sums), visible_));
    way.channel()->call(std::move(request), deadline, nullptr, std::move(done));
  }

  const std::weak_ptr<ShmWay> way_;
  rpc::Runtime& runtime_;
  const std::vector<WriteItem> items_;
  const Time deadline_;
  const bool visible_;
  Done done_;
  std::vector<WriteOutcome> outcomes_;
  std::deque<BatchPtr> queue_;
  std::deque<BatchPtr> held_back_;
  std::shared_ptr<void> timer_;
  size_t in_flight_ = 0;
  size_t left_ = 0;                      // batches not settled
};

}  // namespace

std::shared_ptr<Owner> shm_owner(rpc::PeerAddress peer, rpc::Runtime& runtime, Metrics& metrics) {
  return std::make_shared<WayOwner<ShmWay, PlaceCall>>(std::move(peer), runtime, metrics, "shm");
}

}  // namespace millpond::transfer
