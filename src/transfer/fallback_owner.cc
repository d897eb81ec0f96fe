#include "transfer/fallback_owner.h"

#include <atomic>

#include "base/log.h"
#include "base/reached.h"

namespace millpond::transfer {
namespace {

class FallbackOwner : public Owner, public std::enable_shared_from_this<FallbackOwner> {
 public:
  FallbackOwner(std::shared_ptr<Owner> first, std::shared_ptr<Owner> second, rpc::Runtime& runtime, Metrics& metrics)
      : first_(std::move(first)), second_(std::move(second)), runtime_(runtime),
        fallbacks_(metrics.counter("millpond_transfer_fallbacks_total", "Calls that went on over the next way because one failed.",
                                   std::string("from=\"") + first_->transport() + "\"")) {}

  void read(std::vector<ReadItem> items, Time deadline, std::function<void(std::vector<ReadOutcome>)> done) override {
    if (resting()) return second_->read(std::move(items), deadline, std::move(done));
    run<ReadOutcome>(std::move(items), [deadline](Owner& owner, std::vector<ReadItem> some, auto then) {
      owner.read(std::move(some), deadline, std::move(then));
    }, std::move(done));
  }

  void write(std::vector<WriteItem> items, Time deadline, bool visible, std::function<void(std::vector<WriteOutcome>)> done) override {
    if (resting()) return second_->write(std::move(items), deadline, visible, std::move(done));
    run<WriteOutcome>(std::move(items), [deadline, visible](Owner& owner, std::vector<WriteItem> some, auto then) {
      owner.write(std::move(some), deadline, visible, std::move(then));
    }, std::move(done));
  }

  void recheck(std::vector<BlockId> ids, Time deadline, std::function<void(std::vector<Code>)> done) override {
    (resting() ? second_ : first_)->recheck(std::move(ids), deadline, std::move(done));
  }

  const char* transport() const override { return resting() ? second_->transport() : first_->transport(); }

 private:
  bool resting() const { return runtime_.now().since_start.count() < rests_until_.load(std::memory_order_relaxed); }

  void rest() {
    int64_t until = (runtime_.now() + kFallbackHeld).since_start.count();
    if (rests_until_.exchange(until) < runtime_.now().since_start.count())
      log::warn("transfer: {} does not answer, {} is used for {} s", first_->transport(), second_->transport(),
                int(seconds(kFallbackHeld)));
  }

  template <typename Outcome, typename Item, typename Move>
  void run(std::vector<Item> items, Move move, std::function<void(std::vector<Outcome>)> done) {
    auto kept = std::make_shared<std::vector<Item>>(items);
    move(*first_, std::move(items),
         [weak = weak_from_this(), kept, move, done = std::move(done)](std::vector<Outcome> outcomes) mutable {
      std::vector<size_t> failed;
      bool lost = false;
      for (size_t i = 0; i < outcomes.size(); ++i) {
        // overloaded: this way has a bound that the other has not, as a writer's share of the arena over shared memory.
        if (outcomes[i].code != Code::unavailable && outcomes[i].code != Code::overloaded) continue;
        failed.push_back(i);
        lost |= outcomes[i].code == Code::unavailable;
      }
      auto self = weak.lock();
      if (failed.empty() || !self) return done(std::move(outcomes));
      MP_REACHED("transfer: fell back");
      self->fallbacks_.add();
      if (lost) self->rest();
      std::vector<Item> again;
      for (auto i : failed) again.push_back(std::move((*kept)[i]));
      move(*self->second_, std::move(again),
           [failed, outcomes = std::move(outcomes), done = std::move(done)](std::vector<Outcome> later) mutable {
        for (size_t k = 0; k < failed.size(); ++k) outcomes[failed[k]] = later[k];
        done(std::move(outcomes));
      });
    });
  }

  const std::shared_ptr<Owner> first_, second_;
  rpc::Runtime& runtime_;
  Counter& fallbacks_;
  std::atomic<int64_t> rests_until_{INT64_MIN};
};

}  // namespace

std::shared_ptr<Owner> fallback_owner(std::shared_ptr<Owner> first, std::shared_ptr<Owner> second, rpc::Runtime& runtime,
                                      Metrics& metrics) {
  return std::make_shared<FallbackOwner>(std::move(first), std::move(second), runtime, metrics);
}

}  // namespace millpond::transfer
