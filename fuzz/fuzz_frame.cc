// Whatever bytes come, a frame is decoded or refused, and every message that verifies can be walked to its last field.
// The input is a frame; so that the fuzzer need not find a checksum, the bytes behind the header are also read as a
// message of every kind. Findings reproduce with the file as argument.
#include <cstdlib>

#include "wire/frame.h"
#include "wire/limits.h"
#include "wire/message.h"

namespace millpond::wire {
namespace {

volatile uint64_t sink;   // what is read is used

template <typename Number>
  requires std::is_arithmetic_v<Number> || std::is_enum_v<Number>
void visit(Number value) { sink = sink + uint64_t(value); }
void visit(const flatbuffers::String* text) {
  for (char c : text_of(text)) visit(c);
}
template <typename T>
  requires(!std::is_pointer_v<T>)
void visit(const flatbuffers::Vector<T>* values) {
  for (auto value : span_of(values)) visit(value);
}
template <typename Struct>
  requires(!std::is_base_of_v<flatbuffers::Table, Struct> && !std::is_arithmetic_v<Struct>)
void visit(const flatbuffers::Vector<const Struct*>* values) {
  for (auto& value : span_of(values))
    for (std::byte byte : std::as_bytes(std::span(&value, 1))) visit(uint8_t(byte));
}
void visit(const Id* id) {
  if (id) sink = sink + id_of(*id).low;
}
template <typename... Fields>
void visit_all(Fields... fields) { (visit(fields), ...); }

void walk(const NodeInfo& m) {
  visit_all(m.index(), m.node_id(), m.epoch(), m.name(), m.address(), m.local_socket(), m.host_id(), m.state(), m.weight());
}
void walk(const ClusterView* m) {
  if (!m) return;
  visit_all(m->version(), m->term());
  if (m->nodes()) for (auto* node : *m->nodes()) walk(*node);
}
void walk(const Hello& m) {
  visit_all(m.release(), m.protocol_min(), m.protocol_max(), m.role(), m.node_id(), m.node_epoch(), m.cluster_id(), m.tenant(), m.nonce(), m.keyed());
}
void walk(const HelloReply& m) {
  visit_all(m.code(), m.reason(), m.release(), m.protocol(), m.role(), m.node_id(), m.node_epoch(), m.master_term(), m.cluster_id(), m.nonce(), m.proof());
}
void walk(const HelloProof& m) { visit(m.proof()); }
void walk(const HelloDone& m) { visit_all(m.code(), m.reason()); }
void walk(const wire::Failure& m) { visit_all(m.code(), m.reason()); }
void walk(const Lookup& m) { visit_all(m.generation(), m.ids(), m.view_version(), m.each(), m.touch()); }
void walk(const LookupReply& m) {
  visit_all(m.code(), m.generation(), m.matched(), m.replicas(), m.lengths(), m.warming());
  walk(m.view());
}
void walk(const Remove& m) { visit_all(m.generation(), m.ids()); }
void walk(const RemoveReply& m) { visit_all(m.code(), m.generation(), m.removed(), m.unconfirmed_nodes()); }
void walk(const RemoveAll& m) { visit_all(m.tenant(), m.name(), m.generation()); }
void walk(const RemoveAllReply& m) { visit_all(m.code(), m.generation(), m.unconfirmed_nodes()); }
void walk(const OpenNamespace& m) { visit_all(m.tenant(), m.name(), m.view_version()); }
void walk(const OpenNamespaceReply& m) {
  visit_all(m.code(), m.reason(), m.generation());
  walk(m.view());
}
void walk(const Report& m) { visit_all(m.node_id(), m.epoch(), m.code(), m.ids()); }
void walk(const ReportReply& m) { visit(m.code()); }
void walk(const Explain& m) { visit(m.id()); }
void walk(const ExplainReply& m) { visit_all(m.reason(), m.node()); }
void walk(const Stat&) {}
void walk(const StatReply& m) { visit(m.json()); }
void walk(const Join& m) { visit_all(m.node_id(), m.epoch(), m.name(), m.address(), m.local_socket(), m.blocks(), m.removals(), m.generations()); }
void walk(const JoinReply& m) { visit_all(m.code(), m.reason(), m.term(), m.index(), m.removals(), m.drop_namespaces(), m.generations()); }
void walk(const Heartbeat& m) { visit_all(m.node_id(), m.epoch(), m.used_bytes(), m.removal_last()); }
void walk(const HeartbeatReply& m) { visit_all(m.code(), m.term()); }
void walk(const Advertise& m) { visit_all(m.node_id(), m.sequence_first(), m.items(), m.removals_seen(), m.inventory_complete()); }
void walk(const AdvertiseReply& m) { visit_all(m.code(), m.acked(), m.answers()); }
void walk(const Leave& m) { visit_all(m.node_id(), m.epoch()); }
void walk(const LeaveReply& m) { visit(m.code()); }
void walk(const ApplyRemovals& m) { visit_all(m.term(), m.after(), m.removals(), m.generations()); }
void walk(const ApplyRemovalsReply& m) { visit_all(m.code(), m.removal_last()); }
void walk(const Touch& m) { visit_all(m.term(), m.runs(), m.protect()); }
void walk(const TouchReply& m) { visit(m.code()); }
void walk(const Read& m) { visit_all(m.ids(), m.places()); }
void walk(const ReadReply& m) { visit_all(m.blocks(), m.sums(), m.pages()); }
void walk(const Store& m) { visit_all(m.generation(), m.items(), m.keys(), m.sums(), m.visible()); }
void walk(const StoreReply& m) { visit_all(m.codes(), m.generation()); }
void walk(const Reserve& m) { visit_all(m.generation(), m.items(), m.keys()); }
void walk(const ReserveReply& m) { visit_all(m.answers(), m.pages(), m.generation()); }
void walk(const Commit& m) { visit_all(m.items(), m.sums(), m.visible()); }
void walk(const CommitReply& m) { visit(m.codes()); }
void walk(const Recheck& m) { visit(m.ids()); }
void walk(const RecheckReply& m) { visit(m.codes()); }

template <typename Message>
void read_as(ByteSpan body) {
  if (auto message = parse<Message>(body)) walk(**message);
}
template <typename... Messages>
void read_as_each(ByteSpan body) { (read_as<Messages>(body), ...); }

void read_frame(const uint8_t* data, size_t size) {
  ByteSpan bytes = std::as_bytes(std::span(data, size));
  auto header = decode_header(bytes);
  if (header) {
    if (header->message_bytes > kMessageBytesMax || header->payload_bytes > kPayloadBytesMax) std::abort();
    ByteSpan rest = bytes.subspan(kFrameHeaderBytes);
    ByteSpan message = rest.first(std::min<size_t>(rest.size(), header->message_bytes));
    if (check_message(bytes, message).ok()) {   // then it is what encode_header makes
      auto again = encode_header(*header, message);
      if (std::memcmp(again.data(), bytes.data(), again.size()) != 0) std::abort();
    }
  }
  ByteSpan tail = bytes.subspan(std::min(size, kFrameHeaderBytes));
  ByteVector body(tail.begin(), tail.end());    // aligned, as a received message is
  if (failure_status(body).ok()) std::abort();
  read_as_each<Hello, HelloReply, HelloProof, HelloDone, wire::Failure, Lookup, LookupReply, Remove, RemoveReply, RemoveAll,
               RemoveAllReply, OpenNamespace, OpenNamespaceReply, Report, ReportReply, Explain, ExplainReply, Stat, StatReply, Join, JoinReply,
               Heartbeat, HeartbeatReply, Advertise, AdvertiseReply, Leave, LeaveReply, ApplyRemovals, ApplyRemovalsReply, Touch, TouchReply,
               Read, ReadReply, Store, StoreReply, Reserve, ReserveReply, Commit, CommitReply, Recheck, RecheckReply>(body);
}

}  // namespace
}  // namespace millpond::wire

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  millpond::wire::read_frame(data, size);
  return 0;
}
