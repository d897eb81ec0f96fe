// A Channel over sockets: calls waiting for a connection, on it, or landing. Design: docs/design/rpc.md.
//
// Lives on: the loop; call() and shared_fds() from any thread.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/mutex.h"
#include "rpc/connector.h"
#include "rpc/core.h"
#include "rpc/frame_stream.h"
#include "rpc/hello.h"

namespace millpond::rpc {

class ChannelState : public Part, public FrameHandler, public std::enable_shared_from_this<ChannelState> {
 public:
  ChannelState(std::shared_ptr<Core> core, PeerAddress peer);
  ~ChannelState() override;

  void call(Message request, Time deadline, LandReply land, Done done);   // any thread
  std::vector<int> shared_fds() const EXCLUDES_LOCK(fds_mutex_);          // any thread
  void end() override;                                                    // calls in flight end with unavailable
  void check_stall(Time before) override;

 private:
  struct Call {
    Message request;
    Time deadline;
    LandReply land;
    Done done;
    Time started;
    std::optional<TimerQueue::Key> timer;
    bool in_stream = false;              // its memory may still be read
    std::optional<Result<Reply>> answer; // came before the request was sent to its end
  };
  enum class Phase { idle, connecting, hello, proof, open };

  void begin(std::shared_ptr<Call> call);
  void connect();
  void connected(Result<std::unique_ptr<Watch>> watch);
  void hello_frame(const wire::FrameHeader& header, ByteSpan body);
  void opened();
  void give_up(Status reason);           // connect or Hello failed: back off, every waiting call ends
  void put(uint64_t id, Call& call);
  void expire(uint64_t id);
  void finish(uint64_t id, Result<Reply> result);   // or keep it until the request's memory is free
  void release(uint64_t id, Result<Reply> result);
  void count_end(const Call& call, Code code);
  void fail_all(const Status& reason);
  void adopt_fds(std::vector<int> fds) EXCLUDES_LOCK(fds_mutex_);
  void close_fds() EXCLUDES_LOCK(fds_mutex_);

  std::optional<Landing> payload_begins(const wire::FrameHeader& header, ByteVector& body) override;
  void frame(const wire::FrameHeader& header, ByteVector body, Landing landing) override;
  void sent(uint64_t request_id) override;
  void closed(Status reason) override;

  std::shared_ptr<Core> core_;
  const PeerAddress peer_;
  Result<Address> address_;
  std::atomic<size_t> in_flight_{0};

  Phase phase_ = Phase::idle;
  bool ended_ = false;
  std::shared_ptr<Connector> connector_;
  std::shared_ptr<FrameStream> stream_;
  std::optional<HelloClient> hello_;
  std::optional<TimerQueue::Key> hello_timer_;
  Duration backoff_{0};
  Time retry_at_{};
  Status failed_;                        // why, while backing off

  std::unordered_map<uint64_t, std::shared_ptr<Call>> calls_;
  uint64_t id_next_ = 1;
  uint64_t landing_id_ = 0;              // whose payload is being read
  ByteVector landing_body_;

  mutable Mutex fds_mutex_;
  std::vector<int> fds_ GUARDED_BY(fds_mutex_);
  std::vector<int> fds_before_ GUARDED_BY(fds_mutex_);   // of an earlier connection, still mapped by someone perhaps
};

}  // namespace millpond::rpc
