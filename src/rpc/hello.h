// The first frames of a connection, as plain functions of bytes: who is there, do we belong to one cluster, which
// protocol do we speak. Nonces come in as arguments. Design: docs/design/wire.md, "Hello".
#pragma once
#include <array>
#include <string>

#include "base/bytes.h"
#include "base/status.h"
#include "rpc/runtime.h"

namespace millpond::rpc {

using Nonce = std::array<std::byte, 32>;
using Proof = std::array<std::byte, 32>;

Nonce new_nonce();                       // from the kernel

struct HelloPeer {
  std::string release;
  uint16_t protocol = 0;                 // what both will speak
  uint8_t role = 0;
  NodeId node_id{};
  NodeEpoch node_epoch{};
  MasterTerm master_term{};
  std::string tenant;
};

// The end that connects: hello() → read_reply() → proof() → read_done().
class HelloClient {
 public:
  HelloClient(Identity identity, Nonce nonce);

  const ByteVector& hello() const { return hello_; }
  // refused: another cluster, key or protocol, with the reason; whatever else the peer answered; corrupt: not a HelloReply.
  Status read_reply(ByteSpan body);
  // Empty inside unless read_reply was ok: then the peer counts the refusal too.
  ByteVector proof() const;
  Status read_done(ByteSpan body) const;
  const HelloPeer& peer() const { return peer_; }

 private:
  Identity identity_;
  ByteVector hello_;
  ByteVector proof_;
  HelloPeer peer_;
};

// The end that listens: read_hello() → reply() → read_proof() → done().
class HelloServer {
 public:
  HelloServer(Identity identity, Nonce nonce);

  // Not ok: send reply() all the same (it tells the reason), then close. corrupt: not a Hello; no reply.
  Status read_hello(ByteSpan body);
  ByteVector reply() const;
  Status read_proof(ByteSpan body) const;
  static ByteVector done(const Status& status);
  const HelloPeer& peer() const { return peer_; }

 private:
  Status judge(ByteSpan body);

  Identity identity_;
  Nonce nonce_;
  ByteVector hello_;
  Status verdict_;
  HelloPeer peer_;
};

}  // namespace millpond::rpc
