#include "transfer/tcp_owner.h"

#include <deque>
#include <numeric>

#include "base/log.h"
#include "base/reached.h"
#include "transfer/way_owner.h"
#include "transfer/write_items.h"

namespace millpond::transfer {
namespace {

class TcpWay : public Way {
 public:
  TcpWay(rpc::PeerAddress peer, rpc::Runtime& runtime, Metrics& metrics)
      : Way(runtime, metrics, "tcp"), channel_(runtime.channel(std::move(peer))) {}
  std::shared_ptr<rpc::Channel> channel() override { return channel_; }

 private:
  std::shared_ptr<rpc::Channel> channel_;
};

// One write(). Sums are made on the caller's thread, batch by batch, so that one batch travels while the next is hashed;
// the rest lives on the loop.
class StoreCall : public std::enable_shared_from_this<StoreCall> {
 public:
  using Done = std::function<void(std::vector<WriteOutcome>)>;
  StoreCall(const std::shared_ptr<Way>& way, std::vector<WriteItem> items, Time deadline, bool visible, Done done)
      : way_(way), runtime_(way->runtime), items_(std::move(items)), deadline_(deadline), visible_(visible),
        done_(std::move(done)), outcomes_(items_.size()), sums_(items_.size()) {}

  void start() {
    std::vector<uint32_t> good;
    for (uint32_t i = 0; i < items_.size(); ++i) {
      if (can_be_stored(items_[i])) good.push_back(i);
      else outcomes_[i].code = Code::invalid;
    }
    auto batches = cut(good, [&](uint32_t i) { return weight_of_write(items_[i]); });
    left_ = batches.size();
    for (auto& positions : batches) {
      for (auto i : positions) sums_[i] = checksum(items_[i].source, items_[i].key.seed);
      runtime_.post([self = shared_from_this(), batch = Batch{std::move(positions)}]() mutable {
        self->queue_.push_back(std::move(batch));
        self->pump();
      });
    }
    if (batches.empty()) runtime_.post([self = shared_from_this()] { self->pump(); });
  }

 private:
  struct Batch {
    std::vector<uint32_t> positions;
    bool again = false;
  };

  void pump() {
    while (!queue_.empty() && in_flight_ < kBatchesInFlight) {
      auto batch = std::move(queue_.front());
      queue_.pop_front();
      ++in_flight_;
      send(std::move(batch));
    }
    if (left_ == 0 && done_) std::exchange(done_, nullptr)(std::move(outcomes_));
  }

  void send(Batch batch) {
    auto way = way_.lock();
    if (!way) return answered(batch, error(Code::unavailable, "closed"));
    rpc::Message request{.kind = wire::Kind::store};
    auto packed = pack(items_, batch.positions, sums_);
    wire::Builder builder;
    request.body = wire::finish(
        builder, wire::CreateStore(builder, items_[batch.positions.front()].namespace_generation,
                                   wire::structs<wire::StoreItem>(builder, packed.items), builder.CreateVector(packed.keys),
                                   builder.CreateVector(packed.sums), visible_));
    for (auto i : batch.positions) {
      auto& source = items_[i].source;
      std::copy_if(source.begin(), source.end(), std::back_inserter(request.payload), [](auto& p) { return !p.empty(); });
    }
    way->channel()->call(std::move(request), deadline_, nullptr,
                         [self = shared_from_this(), batch = std::move(batch)](Result<rpc::Reply> reply) {
      self->answered(batch, std::move(reply));
    });
  }

  void answered(const Batch& batch, Result<rpc::Reply> reply) {
    auto way = way_.lock();
    std::vector<Code> codes(batch.positions.size(), Code::unavailable);
    uint32_t generation = 0;
    if (!reply) {
      std::fill(codes.begin(), codes.end(), outcome_of(reply.error().code()));
      if (way && reply.error().code() == Code::timed_out) way->counters.late.add(codes.size());
    } else {
      auto parsed = wire::parse<wire::StoreReply>(reply->body);
      auto answers = parsed && reply->kind == wire::Kind::store_reply ? wire::span_of((*parsed)->codes()) : std::span<const uint8_t>();
      if (answers.size() == codes.size()) {
        std::transform(answers.begin(), answers.end(), codes.begin(), code_of_peer);
        generation = (*parsed)->generation();
      } else {
        MP_REACHED("transfer: bad store reply");
        if (way) way->complain(Status(Code::corrupt, "a store of {} blocks was answered for {}", codes.size(), answers.size()));
      }
    }
    Batch again{.again = true};
    for (size_t k = 0; k < codes.size(); ++k) {
      uint32_t i = batch.positions[k];
      if (codes[k] == Code::corrupt && !batch.again) {   // a bit flipped on the way: once more, from fresh sums
        again.positions.push_back(i);
        continue;
      }
      outcomes_[i] = {codes[k], generation};
      if (!way) continue;
      if (codes[k] == Code::ok) way->counters.blocks_written.add(), way->counters.bytes_written.add(total_bytes(items_[i].source));
      if (codes[k] == Code::corrupt) way->counters.corrupt.add();
    }
    --in_flight_;
    if (again.positions.empty()) {
      --left_;
    } else {
      MP_REACHED("transfer: store sent once more");
      if (way) way->counters.retries.add(again.positions.size());
      for (auto i : again.positions) sums_[i] = checksum(items_[i].source, items_[i].key.seed);
      queue_.push_front(std::move(again));
    }
    pump();
  }

  const std::weak_ptr<Way> way_;
  rpc::Runtime& runtime_;
  const std::vector<WriteItem> items_;
  const Time deadline_;
  const bool visible_;
  Done done_;
  std::vector<WriteOutcome> outcomes_;
  std::vector<Checksums> sums_;          // of a batch: written before it is posted
  std::deque<Batch> queue_;
  size_t in_flight_ = 0;
  size_t left_ = 0;                      // batches without their last answer
};

}  // namespace

std::shared_ptr<Owner> tcp_owner(rpc::PeerAddress peer, rpc::Runtime& runtime, Metrics& metrics) {
  return std::make_shared<WayOwner<TcpWay, StoreCall>>(std::move(peer), runtime, metrics, "tcp");
}

}  // namespace millpond::transfer
