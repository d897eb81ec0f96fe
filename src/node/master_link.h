// The shell around Advertiser, Removals and Heartbeat: sends what they decide over two channels to the master and feeds
// them the answers. Lives on: the node's loop.
#pragma once
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "node/advertiser.h"
#include "node/heartbeat.h"
#include "node/removals.h"
#include "rpc/runtime.h"

namespace millpond::node {

struct Shared;

class MasterLink {
 public:
  explicit MasterLink(Shared& shared);

  void pump();                           // does whatever is due; call after anything has changed
  void wait(std::vector<uint64_t> events, Time until, Advertiser::Done done);
  // Removals pushed by a master. Answers where this node then stands; stale: a later master has been seen.
  Result<uint64_t> apply_removals(uint64_t term, uint64_t after, std::span<const Removal> records,
                                  std::span<const std::pair<uint32_t, uint32_t>> generations);
  bool accepts_term(uint64_t term);
  // Ends all waits and says goodbye; `left` runs when the master has answered or the deadline is over.
  void close(Time deadline, std::function<void()> left);

 private:
  void send_join(uint64_t call);
  void send_batch(uint64_t call, const Batch& batch);
  void send_heartbeat();
  void join_answered(uint64_t call, const Result<rpc::Reply>& reply);
  void carry_out(std::span<const Removal> records);
  void drop_namespaces(std::span<const uint32_t> namespaces);
  void publish();
  void arm();

  Shared& shared_;
  Advertiser advertiser_;
  Removals removals_;
  Heartbeat heartbeat_;
  std::shared_ptr<rpc::Channel> control_;
  std::shared_ptr<rpc::Channel> beats_;
  std::shared_ptr<void> timer_;
  Time armed_at_ = Time::max();
  Advertiser::Counts published_;
  uint64_t joins_published_ = 0;
  bool pumping_ = false;
  bool away_said_ = false;               // one log line for each change
};

}  // namespace millpond::node
