#include "sim/connection.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/reached.h"

namespace millpond::sim {
namespace {

// The bytes [from, from + count) of `pieces`, as they stand now.
ByteVector gather(const std::vector<ByteSpan>& pieces, uint64_t from, uint64_t count) {
  ByteVector bytes(count);
  uint64_t done = 0;
  for (auto piece : pieces) {
    if (from >= piece.size()) {
      from -= piece.size();
      continue;
    }
    auto step = std::min<uint64_t>(piece.size() - from, count - done);
    std::memcpy(bytes.data() + done, piece.data() + from, step);
    done += step;
    from = 0;
    if (done == count) break;
  }
  return bytes;
}

void scatter(const std::vector<MutableByteSpan>& pieces, uint64_t at, ByteSpan bytes) {
  for (auto piece : pieces) {
    if (bytes.empty()) return;
    if (at >= piece.size()) {
      at -= piece.size();
      continue;
    }
    auto step = std::min<uint64_t>(piece.size() - at, bytes.size());
    std::memcpy(piece.data() + at, bytes.data(), step);
    bytes = bytes.subspan(step);
    at = 0;
  }
}

}  // namespace

Connection::Connection(Network& network, uint64_t id, ProcessId client_process, ProcessId server_process) : network_(network), id_(id) {
  ends_[client].process = client_process;
  ends_[server].process = server_process;
}

void Connection::hello_done(Side side) { ends_[side].hello = network_.world().now(); }

bool Connection::link_cut(Side source) const {
  auto& world = network_.world();
  return network_.is_cut(world.host(ends_[source].process), world.host(ends_[other(source)].process));
}

void Connection::send(Side side, Outgoing frame) {
  auto& end = ends_[side];
  if (end.closed) return;
  end.queue.push_back(std::move(frame));
  pump(side);
}

void Connection::pump(Side side) {
  auto& end = ends_[side];
  if (end.pumping || end.closed || end.queue.empty() || end.stalled_bytes >= network_.options().window_bytes) return;
  auto& world = network_.world();
  auto& frame = end.queue.front();
  uint64_t payload_bytes = total_bytes(frame.payload);
  Segment segment;
  if (!end.head_sent) {
    wire::FrameHeader header{.kind = frame.kind, .flags = frame.reply ? uint32_t(wire::kFlagReply) : 0, .request_id = frame.request_id, .payload_bytes = payload_bytes};
    header.since_hello_ms = uint64_t(milliseconds(world.now() - end.hello));
    if (!frame.reply) {
      auto left = frame.deadline == Time::max() ? int64_t(UINT32_MAX) : microseconds(frame.deadline - world.now());
      header.deadline_us = uint32_t(std::clamp<int64_t>(left, 1, UINT32_MAX));
    }
    auto head = wire::encode_header(header, frame.message);
    segment.bytes.assign(head.begin(), head.end());
    segment.bytes.insert(segment.bytes.end(), frame.message.begin(), frame.message.end());
    end.head_sent = true;
    network_.passing({.arrived = false, .source = end.process, .target = ends_[other(side)].process, .connection = id_,
                      .request_id = frame.request_id, .reply = frame.reply, .kind = frame.kind, .body = frame.message});
    if (network_.random().chance(network_.options().break_connection)) {
      MP_REACHED("sim: connection broken by fault");
      end.pumping = true;                // for good: nothing leaves a connection that is about to end
      return break_both(Status(Code::unavailable, "connection lost"));
    }
  } else {
    auto count = std::min<uint64_t>(network_.options().chunk_bytes, payload_bytes - end.payload_sent);
    segment.bytes = gather(frame.payload, end.payload_sent, count);
    end.payload_sent += count;
    if (network_.random().chance(network_.options().flip_payload)) {
      MP_REACHED("sim: payload byte flipped");
      segment.bytes[network_.random().below(count)] ^= std::byte(1 + network_.random().below(255));
    }
  }
  if (end.payload_sent == payload_bytes) {
    end.queue.pop_front();
    end.head_sent = false;
    end.payload_sent = 0;
  }
  auto busy = Duration(segment.bytes.size() * 1'000'000'000 / network_.options().bytes_per_second + 1000);
  end.pumping = true;
  world.after(busy, end.process, [self = shared_from_this(), side] {
    self->ends_[side].pumping = false;
    self->pump(side);
  });
  emit(side, std::move(segment));
}

void Connection::emit(Side source, Segment segment) {
  auto& end = ends_[source];
  if (link_cut(source) || !end.stalled.empty()) {
    end.stalled_bytes += segment.bytes.size();
    end.stalled.push_back(std::move(segment));
    return watch_stall(source);
  }
  schedule(source, std::move(segment));
}

void Connection::schedule(Side source, Segment segment) {
  auto& world = network_.world();
  auto& end = ends_[source];
  auto target = other(source);
  if (!world.alive(ends_[target].process)) {
    // Nobody there any more: the host answers with a reset.
    if (!end.closed)
      world.after(network_.delay(), end.process, [self = shared_from_this(), source] { self->end_here(source, Status(Code::unavailable, "connection reset")); });
    return;
  }
  end.arrival_last = std::max(end.arrival_last + Duration(1), world.now() + network_.delay());
  world.at(end.arrival_last, ends_[target].process,
           [self = shared_from_this(), target, segment = std::make_shared<Segment>(std::move(segment))] { self->arrived(target, std::move(*segment)); });
}

void Connection::watch_stall(Side source) {
  auto& end = ends_[source];
  if (end.stall_watched || end.closed) return;
  end.stall_watched = true;
  network_.world().after(network_.options().stall_limit, end.process, [self = shared_from_this(), source] {
    auto& end = self->ends_[source];
    end.stall_watched = false;
    if (end.closed || end.stalled.empty()) return;
    MP_REACHED("sim: stalled connection given up");
    self->end_here(source, Status(Code::unavailable, "connection timed out"));
  });
}

void Connection::healed(Side source) {
  auto& end = ends_[source];
  auto stalled = std::move(end.stalled);
  end.stalled.clear();
  end.stalled_bytes = 0;
  for (auto& segment : stalled) schedule(source, std::move(segment));
  pump(source);
  settle();
}

void Connection::arrived(Side target, Segment segment) {
  auto& end = ends_[target];
  if (end.closed) return;
  if (segment.fin) return end_here(target, Status(Code::unavailable, "the peer closed the connection"));
  auto owner = end.end.lock();
  if (!owner) return end_here(target, Status(Code::unavailable, "nobody at this end"));
  auto self = shared_from_this();   // what is called may let go of this connection
  if (!end.in_frame) {
    if (network_.random().chance(network_.options().flip_message))
      segment.bytes[network_.random().below(segment.bytes.size())] ^= std::byte(1 + network_.random().below(255));
    auto header = wire::decode_header(segment.bytes);
    Status status = header ? wire::check_message(segment.bytes, ByteSpan(segment.bytes).subspan(wire::kFrameHeaderBytes)) : header.error();
    if (!status.ok()) {
      MP_REACHED("sim: frame does not verify");
      return break_both(status);
    }
    end.in_frame = true;
    end.header = *header;
    end.payload_here = 0;
    ByteVector message(segment.bytes.begin() + wire::kFrameHeaderBytes, segment.bytes.end());
    network_.passing({.arrived = true, .source = ends_[other(target)].process, .target = end.process, .connection = id_,
                      .request_id = header->request_id, .reply = header->reply(), .kind = header->kind, .body = message});
    auto landing = owner->head(*header, std::move(message));
    end.drain = !landing;
    end.landing = landing ? std::move(*landing) : rpc::Landing{};
  } else {
    if (!end.drain) scatter(end.landing.pieces, end.payload_here, segment.bytes);
    end.payload_here += segment.bytes.size();
  }
  if (end.closed || end.payload_here < end.header.payload_bytes) return;
  end.in_frame = false;
  owner->whole(end.header, std::exchange(end.landing, {}), end.drain);
}

void Connection::abandon(Side side, uint64_t request_id) {
  auto& end = ends_[side];
  for (size_t i = 0; i < end.queue.size(); ++i) {
    auto& frame = end.queue[i];
    if (frame.reply || frame.request_id != request_id) continue;
    if (i == 0 && end.head_sent) {
      MP_REACHED("sim: call ended while its payload was sent");
      return end_here(side, Status(Code::unavailable, "closed in the middle of a frame"));
    }
    end.queue.erase(end.queue.begin() + std::ptrdiff_t(i));
    return;
  }
}

void Connection::stop_landing(Side side, uint64_t request_id) {
  auto& end = ends_[side];
  if (!end.in_frame || !end.header.reply() || end.header.request_id != request_id) return;
  MP_REACHED("sim: call ended while its payload landed");
  end.drain = true;
  end.landing = {};
}

void Connection::close(Side side) {
  auto& end = ends_[side];
  if (end.closed) return;
  end.closed = true;
  end.queue.clear();
  end.landing = {};
  if (!network_.random().chance(network_.options().late_after_close)) {
    end.stalled.clear();
    end.stalled_bytes = 0;
  } else if (!end.stalled.empty()) {
    MP_REACHED("sim: segments arrive after their sender gave up");
  }
  emit(side, {.bytes = {}, .fin = true});
  settle();
}

void Connection::end_here(Side side, const Status& why) {
  auto& end = ends_[side];
  if (end.closed) return;
  auto owner = end.end.lock();
  close(side);
  if (owner) owner->closed(why);
}

void Connection::break_both(const Status& why) {
  auto& world = network_.world();
  for (auto side : {client, server}) {
    if (ends_[side].closed) continue;
    ends_[side].stalled.clear();
    ends_[side].stalled_bytes = 0;
    world.after(network_.delay(), ends_[side].process, [self = shared_from_this(), side, why] { self->end_here(side, why); });
  }
}

void Connection::process_gone(Side side, bool silent) {
  auto& end = ends_[side];
  end.queue.clear();
  end.landing = {};
  end.end.reset();
  end.stalled.clear();
  end.stalled_bytes = 0;
  bool was_closed = std::exchange(end.closed, true);
  if (!silent && !was_closed) emit(side, {.bytes = {}, .fin = true});
  settle();
}

void Connection::settle() {
  if (over() && ends_[0].stalled.empty() && ends_[1].stalled.empty()) network_.forget(*this);
}

}  // namespace millpond::sim
