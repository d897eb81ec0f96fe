// One connection that somebody made to us: Hello, then requests to the Service and its answers back.
//
// Lives on: the loop; the Responders that it hands out answer from any thread.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/core.h"
#include "rpc/frame_stream.h"
#include "rpc/hello.h"
#include "rpc/listener.h"
#include "rpc/transit.h"

namespace millpond::rpc {

class ServerConnection : public Part, public FrameHandler, public std::enable_shared_from_this<ServerConnection> {
 public:
  ServerConnection(std::shared_ptr<Core> core, std::shared_ptr<Listener> listener, Service* service, std::string peer_name, bool local,
                   std::vector<int> shared_fds);

  void start(std::unique_ptr<Watch> watch);
  void answer(uint64_t request_id, Time deadline, Message reply);
  void end() override;
  void check_stall(Time before) override;

 private:
  enum class Phase { hello, proof, open, gone };

  void hello_frame(const wire::FrameHeader& header, ByteSpan body);
  void refuse(const Status& reason);
  void opened();
  Request request_of(const wire::FrameHeader& header, ByteVector body);
  bool expired(const wire::FrameHeader& header, const Request& request);
  void count_request(int64_t change);
  void leave();

  std::optional<Landing> payload_begins(const wire::FrameHeader& header, ByteVector& body) override;
  void frame(const wire::FrameHeader& header, ByteVector body, Landing landing) override;
  void sent(uint64_t request_id) override;
  void closed(Status reason) override;

  std::shared_ptr<Core> core_;
  std::shared_ptr<Listener> listener_;
  Service* service_;
  std::vector<int> shared_fds_;
  Caller caller_;
  Phase phase_ = Phase::hello;
  std::shared_ptr<FrameStream> stream_;
  std::optional<HelloServer> hello_;
  std::optional<TimerQueue::Key> hello_timer_;
  Transit transit_;
  Request landing_request_;              // whose payload is being read
  size_t in_flight_ = 0;                 // arrived, answer not sent
};

}  // namespace millpond::rpc
