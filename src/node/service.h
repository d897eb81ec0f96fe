// What peers may ask of a node: read, store, reserve, commit, recheck; and its master: removals, touches.
// Bad requests are answered with what was wrong; nothing a peer sends ends the process.
// Lives on: the node's loop. Limits: per connection a quarter of the arena reserved; one scratch buffer for payload that
// has no home.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "node/reservations.h"
#include "rpc/runtime.h"

namespace millpond::node {

struct Shared;

class DataService {
 public:
  explicit DataService(Shared& shared);
  Result<rpc::Landing> land(const rpc::Request& request);
  void serve(rpc::Request request, std::shared_ptr<rpc::Responder> responder);
  void closed(ConnectionId connection);

 private:
  struct Arrival;                        // a Store whose payload is on its way
  using Answerer = std::shared_ptr<rpc::Responder>;
  Result<void> serve_read(const rpc::Request& request, const Answerer& responder);
  Result<void> serve_store(const rpc::Request& request, const Answerer& responder);
  Result<void> serve_reserve(const rpc::Request& request, const Answerer& responder);
  Result<void> serve_commit(const rpc::Request& request, const Answerer& responder);
  Result<void> serve_recheck(const rpc::Request& request, const Answerer& responder);
  Result<void> serve_removals(const rpc::Request& request, const Answerer& responder);
  Result<void> serve_touch(const rpc::Request& request, const Answerer& responder);
  // Counts, waits until the committed are visible if asked to, and gives the codes to `answer`.
  void finish_store(std::vector<Code> codes, std::vector<uint64_t> events, bool visible, Time deadline, std::function<void(std::vector<Code>)> answer);

  Shared& shared_;
  Reservations reservations_;
  ByteVector scratch_;                   // arriving bytes that nobody wants; never read
};

// Known to a runtime as long as that listens, which is longer than a node lives: forwards while there is a node, then
// answers unavailable.
std::shared_ptr<rpc::Service> make_doorway(std::weak_ptr<Shared> shared);

}  // namespace millpond::node
