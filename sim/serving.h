// The listening end of a simulated connection: frames become requests of a Service, its answers frames.
#pragma once
#include <memory>

#include "rpc/hello.h"
#include "sim/connection.h"

namespace millpond::sim {

// The listening end after a Hello. Kept by whoever keeps the connection. Null, with `hello` refused, if it is refused.
struct Welcome {
  std::shared_ptr<rpc::HelloServer> hello;
  std::shared_ptr<End> end;
};
Welcome answer_hello(Network& network, const Network::Listener& listener, ByteSpan hello, const std::string& address, const std::shared_ptr<Connection>& connection);

rpc::Nonce simulated_nonce(Random& random);

}  // namespace millpond::sim
