#include "sim/serving.h"

#include "base/check.h"
#include "base/reached.h"
#include "rpc/transit.h"
#include "sim/runtime.h"

namespace millpond::sim {
namespace {

class SimResponder : public rpc::Responder {
 public:
  SimResponder(Network& network, std::shared_ptr<Connection> connection, uint64_t request_id)
      : network_(network), connection_(std::move(connection)), request_id_(request_id) {}
  ~SimResponder() override {
    if (answered_ || !network_.world().alive(connection_->process(Connection::server))) return;
    MP_REACHED("sim: request dropped unanswered");
    fail(Status(Code::internal, "the request was dropped unanswered"));
  }
  void answer(rpc::Message reply) override {
    MP_CHECK(!answered_, "request {} answered twice", request_id_);
    answered_ = true;
    connection_->send(Connection::server, {.kind = reply.kind, .reply = true, .request_id = request_id_, .message = std::move(reply.body),
                                           .payload = std::move(reply.payload), .keep = std::move(reply.keep)});
  }

 private:
  Network& network_;
  std::shared_ptr<Connection> connection_;
  uint64_t request_id_;
  bool answered_ = false;
};

// Serves the second arrival of a request; its answer goes nowhere.
class NobodyWaits : public rpc::Responder {
 public:
  void answer(rpc::Message) override {}
};

class ServingEnd : public End {
 public:
  ServingEnd(Network& network, const Network::Listener& listener, const rpc::HelloPeer& peer, const std::string& address, const std::shared_ptr<Connection>& connection)
      : network_(network), runtime_(*listener.runtime), service_(*listener.service), connection_(connection) {
    caller_ = {.connection = ConnectionId(connection->id()), .role = peer.role, .node_id = peer.node_id, .node_epoch = peer.node_epoch,
               .tenant = peer.tenant, .address = address};
  }

  std::optional<rpc::Landing> head(const wire::FrameHeader& header, ByteVector message) override {
    request_ = rpc::Request{.caller = caller_, .kind = header.kind, .body = std::move(message), .payload_bytes = header.payload_bytes};
    refused_ = Status();
    expired_ = false;
    if (header.reply()) {
      refused_ = Status(Code::corrupt, "a reply where requests come");
      return std::nullopt;
    }
    auto connection = connection_.lock();
    auto read_ms = milliseconds(runtime_.world().now() - connection->hello_time(Connection::server));
    auto waited = std::chrono::milliseconds(transit_.waited_ms(header.since_hello_ms, uint64_t(read_ms)));
    Duration left = std::chrono::microseconds(header.deadline_us) - waited;
    expired_ = left <= Duration(0);
    request_.deadline = runtime_.now() + left;
    if (expired_ || header.payload_bytes == 0) return std::nullopt;
    auto landing = service_.land(request_);
    if (!landing) {
      refused_ = landing.error();
      return std::nullopt;
    }
    MP_CHECK(total_bytes(landing->pieces) == header.payload_bytes, "landing of {} bytes for a payload of {}", total_bytes(landing->pieces), header.payload_bytes);
    return std::move(*landing);
  }

  void whole(const wire::FrameHeader& header, rpc::Landing landing, bool) override {
    auto connection = connection_.lock();
    if (!connection) return;
    if (expired_ || runtime_.now() >= request_.deadline) {
      MP_REACHED("sim: expired request dropped");
      return;
    }
    auto responder = std::make_shared<SimResponder>(network_, connection, header.request_id);
    if (!refused_.ok()) return responder->fail(refused_);
    bool twice = header.payload_bytes == 0 && network_.random().chance(network_.options().duplicate);
    rpc::Request again;
    if (twice) again = request_;
    request_.landing = std::move(landing);
    service_.serve(std::move(request_), std::move(responder));
    if (twice) {
      MP_REACHED("sim: request served twice");
      service_.serve(std::move(again), std::make_shared<NobodyWaits>());
    }
  }

  void closed(const Status&) override { service_.closed(caller_.connection); }

 private:
  Network& network_;
  SimRuntime& runtime_;
  rpc::Service& service_;
  std::weak_ptr<Connection> connection_;
  rpc::Caller caller_;
  rpc::Transit transit_;
  rpc::Request request_;
  Status refused_;
  bool expired_ = false;
};

}  // namespace

rpc::Nonce simulated_nonce(Random& random) {
  rpc::Nonce nonce;
  for (auto& byte : nonce) byte = std::byte(random.next());
  return nonce;
}

Welcome answer_hello(Network& network, const Network::Listener& listener, ByteSpan hello, const std::string& address,
                     const std::shared_ptr<Connection>& connection) {
  Welcome welcome{.hello = std::make_shared<rpc::HelloServer>(listener.runtime->identity(), simulated_nonce(network.random()))};
  if (!welcome.hello->read_hello(hello).ok()) return welcome;
  welcome.end = std::make_shared<ServingEnd>(network, listener, welcome.hello->peer(), address, connection);
  connection->attach(Connection::server, welcome.end);
  connection->hello_done(Connection::server);
  return welcome;
}

}  // namespace millpond::sim
