#include "rpc/hello.h"

#include <sodium.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/release.h"
#include "wire/frame.h"
#include "wire/message.h"

namespace millpond::rpc {
namespace {

static_assert(sizeof(Proof) == crypto_auth_hmacsha256_BYTES);
constexpr size_t kNameBytesMax = 256;
constexpr std::string_view kServerLabel = "millpond hello 1 server";
constexpr std::string_view kClientLabel = "millpond hello 1 client";

// Fields go in with their length, so that no two transcripts read the same.
class Transcript {
 public:
  Transcript(std::string_view key, std::string_view label) {
    crypto_auth_hmacsha256_init(&state_, reinterpret_cast<const unsigned char*>(key.data()), key.size());
    add(as_bytes(label));
  }
  void add(ByteSpan bytes) {
    uint32_t size = uint32_t(bytes.size());
    update(std::as_bytes(std::span(&size, 1)));
    update(bytes);
  }
  template <typename Number>
  void add_number(Number number) { add(std::as_bytes(std::span(&number, 1))); }
  Proof proof() {
    Proof proof;
    crypto_auth_hmacsha256_final(&state_, reinterpret_cast<unsigned char*>(proof.data()));
    return proof;
  }

 private:
  void update(ByteSpan bytes) { crypto_auth_hmacsha256_update(&state_, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size()); }
  crypto_auth_hmacsha256_state state_;
};

struct ReplyFields {   // of hello_reply, without reason and proof
  uint8_t code = 0;
  std::string_view release;
  uint16_t protocol = 0;
  uint8_t role = 0;
  uint64_t node_id = 0, node_epoch = 0, master_term = 0;
  std::string_view cluster_id;
  ByteSpan nonce;
};

Proof prove(std::string_view key, std::string_view label, ByteSpan hello, const ReplyFields& reply) {
  Transcript transcript(key, label);
  transcript.add(hello);
  transcript.add_number(reply.code);
  transcript.add(as_bytes(reply.release));
  transcript.add_number(reply.protocol);
  transcript.add_number(reply.role);
  transcript.add_number(reply.node_id);
  transcript.add_number(reply.node_epoch);
  transcript.add_number(reply.master_term);
  transcript.add(as_bytes(reply.cluster_id));
  transcript.add(reply.nonce);
  return transcript.proof();
}

bool same(ByteSpan proof, const Proof& expected) {
  return proof.size() == expected.size() && sodium_memcmp(proof.data(), expected.data(), expected.size()) == 0;
}

ByteSpan bytes_of(const flatbuffers::Vector<uint8_t>* vector) { return std::as_bytes(wire::span_of(vector)); }
auto vector_of(wire::Builder& builder, ByteSpan bytes) { return builder.CreateVector(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()); }
auto string_of(wire::Builder& builder, std::string_view text) { return builder.CreateString(text.data(), text.size()); }

// Text from a peer, fit for a log line.
std::string plain(std::string_view text) {
  std::string out(text.substr(0, kNameBytesMax));
  std::replace_if(out.begin(), out.end(), [](char c) { return c >= 0 && c < ' '; }, '?');
  return out;
}

Code code_of(uint8_t code) { return code <= uint8_t(Code::internal) ? Code(code) : Code::internal; }

ReplyFields fields_of(const Identity& identity, const HelloPeer& peer, const Status& verdict, ByteSpan nonce) {
  return {.code = uint8_t(verdict.code()),
          .release = kRelease,
          .protocol = peer.protocol,
          .role = identity.role,
          .node_id = identity.node_id.value,
          .node_epoch = identity.node_epoch.value,
          .master_term = identity.master_term.value,
          .cluster_id = identity.cluster_id,
          .nonce = nonce};
}

}  // namespace

Nonce new_nonce() {
  MP_CHECK(sodium_init() >= 0, "libsodium does not start");
  Nonce nonce;
  randombytes_buf(nonce.data(), nonce.size());
  return nonce;
}

HelloClient::HelloClient(Identity identity, Nonce nonce) : identity_(std::move(identity)) {
  wire::Builder builder;
  auto release = string_of(builder, kRelease);
  auto cluster = string_of(builder, identity_.cluster_id);
  auto tenant = string_of(builder, identity_.tenant);
  auto nonce_bytes = vector_of(builder, nonce);
  hello_ = wire::finish(builder, wire::CreateHello(builder, release, wire::kProtocolMin, wire::kProtocolMax, wire::Role(identity_.role),
                                                   identity_.node_id.value, identity_.node_epoch.value, cluster, tenant, nonce_bytes,
                                                   !identity_.cluster_key.empty()));
}

Status HelloClient::read_reply(ByteSpan body) {
  auto parsed = wire::parse<wire::HelloReply>(body);
  if (!parsed) return std::move(parsed).error();
  const wire::HelloReply& reply = **parsed;
  peer_ = {.release = plain(wire::text_of(reply.release())),
           .protocol = reply.protocol(),
           .role = uint8_t(reply.role()),
           .node_id = NodeId(reply.node_id()),
           .node_epoch = NodeEpoch(reply.node_epoch()),
           .master_term = MasterTerm(reply.master_term())};
  if (reply.code() != uint8_t(Code::ok)) return Status(code_of(reply.code()), "the peer says: {}", plain(wire::text_of(reply.reason())));
  if (wire::text_of(reply.cluster_id()) != identity_.cluster_id)
    return Status(Code::refused, "the peer belongs to cluster \"{}\", we to \"{}\"", plain(wire::text_of(reply.cluster_id())), identity_.cluster_id);
  if (peer_.protocol < wire::kProtocolMin || peer_.protocol > wire::kProtocolMax)
    return Status(Code::refused, "the peer (release {}) chose protocol {}, we speak {} to {}", peer_.release, peer_.protocol, wire::kProtocolMin,
                  wire::kProtocolMax);
  if (identity_.cluster_key.empty()) return Status();
  if (bytes_of(reply.nonce()).size() != sizeof(Nonce))
    return Status(Code::refused, "the peer has no cluster key, we have one: give every process of the cluster the same cluster_key");
  ReplyFields fields{.code = reply.code(),
                     .release = wire::text_of(reply.release()),
                     .protocol = reply.protocol(),
                     .role = uint8_t(reply.role()),
                     .node_id = reply.node_id(),
                     .node_epoch = reply.node_epoch(),
                     .master_term = reply.master_term(),
                     .cluster_id = wire::text_of(reply.cluster_id()),
                     .nonce = bytes_of(reply.nonce())};
  if (!same(bytes_of(reply.proof()), prove(identity_.cluster_key, kServerLabel, hello_, fields)))
    return Status(Code::refused, "the peer does not prove our cluster key: it has another one; give every process of the cluster the same cluster_key");
  Proof proof = prove(identity_.cluster_key, kClientLabel, hello_, fields);
  proof_.assign(proof.begin(), proof.end());
  return Status();
}

ByteVector HelloClient::proof() const {
  wire::Builder builder;
  auto proof = vector_of(builder, proof_);
  return wire::finish(builder, wire::CreateHelloProof(builder, proof));
}

Status HelloClient::read_done(ByteSpan body) const {
  auto done = wire::parse<wire::HelloDone>(body);
  if (!done) return std::move(done).error();
  if ((*done)->code() == uint8_t(Code::ok)) return Status();
  return Status(code_of((*done)->code()), "the peer says: {}", plain(wire::text_of((*done)->reason())));
}

HelloServer::HelloServer(Identity identity, Nonce nonce) : identity_(std::move(identity)), nonce_(nonce) {}

Status HelloServer::read_hello(ByteSpan body) { return verdict_ = judge(body); }

Status HelloServer::judge(ByteSpan body) {
  auto parsed = wire::parse<wire::Hello>(body);
  if (!parsed) return std::move(parsed).error();
  const wire::Hello& hello = **parsed;
  hello_.assign(body.begin(), body.end());
  peer_ = {.release = plain(wire::text_of(hello.release())),
           .role = uint8_t(hello.role()),
           .node_id = NodeId(hello.node_id()),
           .node_epoch = NodeEpoch(hello.node_epoch()),
           .tenant = plain(wire::text_of(hello.tenant()))};
  if (hello.protocol_min() > wire::kProtocolMax || hello.protocol_max() < wire::kProtocolMin)
    return Status(Code::refused, "release {} speaks protocol {} to {}, release {} here {} to {}: upgrade the older one", peer_.release,
                  hello.protocol_min(), hello.protocol_max(), kRelease, wire::kProtocolMin, wire::kProtocolMax);
  peer_.protocol = std::min(hello.protocol_max(), wire::kProtocolMax);
  if (wire::text_of(hello.cluster_id()) != identity_.cluster_id)
    return Status(Code::refused, "this is cluster \"{}\", the caller wants \"{}\"", identity_.cluster_id, plain(wire::text_of(hello.cluster_id())));
  if (hello.keyed() && identity_.cluster_key.empty())
    return Status(Code::refused, "the caller has a cluster key, this process has none: give every process of the cluster the same cluster_key");
  if (!hello.keyed() && !identity_.cluster_key.empty())
    return Status(Code::refused, "this cluster has a key, the caller has none: set cluster_key there");
  if (bytes_of(hello.nonce()).size() != sizeof(Nonce))
    return Status(Code::refused, "the caller's nonce has {} bytes, {} are needed", bytes_of(hello.nonce()).size(), sizeof(Nonce));
  return Status();
}

ByteVector HelloServer::reply() const {
  ReplyFields fields = fields_of(identity_, peer_, verdict_, nonce_);
  ByteVector proof;
  if (verdict_.ok() && !identity_.cluster_key.empty()) {
    Proof made = prove(identity_.cluster_key, kServerLabel, hello_, fields);
    proof.assign(made.begin(), made.end());
  }
  wire::Builder builder;
  auto reason = string_of(builder, verdict_.message());
  auto release = string_of(builder, fields.release);
  auto cluster = string_of(builder, verdict_.ok() ? fields.cluster_id : std::string_view());
  auto nonce = vector_of(builder, fields.nonce);
  auto proof_bytes = vector_of(builder, proof);
  return wire::finish(builder, wire::CreateHelloReply(builder, fields.code, reason, release, fields.protocol, wire::Role(fields.role), fields.node_id,
                                                      fields.node_epoch, fields.master_term, cluster, nonce, proof_bytes));
}

Status HelloServer::read_proof(ByteSpan body) const {
  auto parsed = wire::parse<wire::HelloProof>(body);
  if (!parsed) return std::move(parsed).error();
  if (identity_.cluster_key.empty()) return Status();
  Proof expected = prove(identity_.cluster_key, kClientLabel, hello_, fields_of(identity_, peer_, verdict_, nonce_));
  if (!same(bytes_of((*parsed)->proof()), expected))
    return Status(Code::refused, "the caller does not prove the cluster key: it has another one; give every process of the cluster the same cluster_key");
  return Status();
}

ByteVector HelloServer::done(const Status& status) {
  wire::Builder builder;
  auto reason = string_of(builder, status.message());
  return wire::finish(builder, wire::CreateHelloDone(builder, uint8_t(status.code()), reason));
}

}  // namespace millpond::rpc
