// The master's requests: decoded, bounded, handed to the pure classes, answered.
#pragma once
#include <memory>

#include "rpc/runtime.h"

namespace millpond::master {

struct Core;
using Answer = std::shared_ptr<rpc::Responder>;

// Answers `request`, now or (Remove, RemoveAll) when nodes have confirmed.
void serve(Core& core, rpc::Request request, Answer answer);

// Its parts: what clients ask (service_client.cc), what nodes say (service_node.cc). An error: the request was wrong
// as a whole; serve() answers with it.
using Served = Result<void>;
Served serve_lookup(Core&, const rpc::Request&, const Answer&);
Served serve_remove(Core&, const rpc::Request&, const Answer&);
Served serve_remove_all(Core&, const rpc::Request&, const Answer&);
Served serve_open_namespace(Core&, const rpc::Request&, const Answer&);
Served serve_report(Core&, const rpc::Request&, const Answer&);
Served serve_explain(Core&, const rpc::Request&, const Answer&);
Served serve_stat(Core&, const rpc::Request&, const Answer&);
Served serve_join(Core&, const rpc::Request&, const Answer&);
Served serve_heartbeat(Core&, const rpc::Request&, const Answer&);
Served serve_advertise(Core&, const rpc::Request&, const Answer&);
Served serve_leave(Core&, const rpc::Request&, const Answer&);

}  // namespace millpond::master
