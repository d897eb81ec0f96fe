// Chooses the way to a node.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/id.h"
#include "base/metrics.h"
#include "rpc/runtime.h"
#include "transfer/owner.h"

namespace millpond::transfer {

// Allowed ways, in order of preference; from the setting `transports`, e.g. "local,shm,tcp".
struct Transports {
  bool local = true, shm = true, tcp = true;
};
Result<Transports> parse_transports(std::string_view text);   // invalid: names the unknown word and the known ones
Transports transports_from_environment();                      // MILLPOND_TRANSPORTS, else all; a bad value is logged once

struct Target {                          // from wire::NodeInfo
  NodeId node_id{};
  NodeEpoch node_epoch{};
  std::string address;
  std::string local_socket;
  uint64_t host_id = 0;
};

uint64_t this_host_id();                 // hash of the kernel's boot id: equal on one host, also across containers

// An Owner that uses the best allowed way: `local` when given (a node in this process), shm when the host ids match and
// the Unix socket answers with the expected node id and epoch, else tcp. Falls back to tcp when shm fails.
std::shared_ptr<Owner> connect(const Target& target, Transports allowed, std::shared_ptr<Owner> local, rpc::Runtime& runtime, Metrics& metrics);

}  // namespace millpond::transfer
