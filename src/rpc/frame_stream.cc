#include "rpc/frame_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>

#include "base/check.h"
#include "base/reached.h"
#include "wire/limits.h"

namespace millpond::rpc {
namespace {

constexpr size_t kBufferBytes = 16 << 10;
constexpr size_t kMessageStepBytes = 1 << 20;
constexpr size_t kTurnBytes = 4 << 20;            // then the other sockets have their turn
constexpr size_t kPiecesMax = std::min(IOV_MAX, 256);
constexpr size_t kFdsMax = 64;

// Where drained payload goes. What is in it is never read.
MutableByteSpan scratch() {
  static thread_local std::vector<std::byte> bytes(256 << 10);
  return bytes;
}

// Hears the rest of a connection that nobody follows any more.
class Deaf : public FrameHandler {
  std::optional<Landing> payload_begins(const wire::FrameHeader&, ByteVector&) override { return std::nullopt; }
  void frame(const wire::FrameHeader&, ByteVector, Landing) override {}
  void sent(uint64_t) override {}
  void closed(Status) override {}
};

iovec iovec_of(ByteSpan bytes) { return {const_cast<std::byte*>(bytes.data()), bytes.size()}; }

}  // namespace

FrameStream::FrameStream(std::shared_ptr<Loop> loop, RpcMetrics& metrics, std::unique_ptr<Watch> watch, Options options, FrameHandler* handler)
    : loop_(std::move(loop)), metrics_(metrics), watch_(std::move(watch)), options_(options), handler_(handler), buffer_(kBufferBytes) {
  read_last_ = write_last_ = Loop::now();
}

FrameStream::~FrameStream() {
  for (int fd : received_fds_) ::close(fd);
}

void FrameStream::start() { wait_read(); }

void FrameStream::hello_done(Time now, uint64_t message_bytes_max) {
  hello_done_ = now;
  options_.message_bytes_max = message_bytes_max;
  options_.payloads = true;
  options_.receive_fds = false;
}

uint64_t FrameStream::since_hello_ms(Time now) const { return hello_done_ ? uint64_t(milliseconds(now - *hello_done_)) : 0; }

// ---- Reading ----

void FrameStream::wait_read() {
  if (read_waiting_ || !watch_) return;
  read_waiting_ = true;
  watch_->wait_read([self = shared_from_this()] {
    self->read_waiting_ = false;
    self->read_ready();
  });
}

void FrameStream::pause(bool paused) {
  if (paused_ == paused) return;
  paused_ = paused;
  if (paused) return;
  read_last_ = Loop::now();
  loop_->post([self = shared_from_this()] { self->read_ready(); });   // what is in the buffer wakes nobody
}

void FrameStream::read_ready() {
  std::vector<iovec> pieces;
  if (!consume()) return;
  for (size_t turn = 0; turn < kTurnBytes;) {
    pieces.clear();
    size_t wanted = 0;
    size_t spare = target(pieces, wanted);
    ssize_t got = receive(pieces);
    if (got < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return fail(Status(Code::unavailable, "the connection broke: {}", std::strerror(errno)));
    }
    if (got == 0) return fail(Status(Code::unavailable, "the peer closed the connection"));
    read_last_ = Loop::now();
    metrics_.bytes_in.add(uint64_t(got));
    turn += size_t(got);
    size_t direct = std::min(size_t(got), wanted);
    landed(direct);
    end_ += size_t(got) - direct;
    if (!consume()) return;
    if (size_t(got) < wanted + spare) break;   // the socket is empty: asking again would only say so
  }
  wait_read();
}

// The memory that the next bytes go to; answers the room behind it in the buffer, for the frame that follows.
size_t FrameStream::target(std::vector<iovec>& pieces, size_t& bytes) {
  if (begin_ == end_) begin_ = end_ = 0;
  if (begin_ > 0 && reading_ == Reading::header) {
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  bool all = true;                                       // of what this frame still wants
  if (reading_ == Reading::message) {
    if (body_have_ == body_.size()) body_.resize(std::min<size_t>(header_.message_bytes, body_have_ + kMessageStepBytes));
    pieces.push_back(iovec_of(ByteSpan(body_).subspan(body_have_)));
    bytes = body_.size() - body_have_;
    all = body_.size() == header_.message_bytes;
  } else if (reading_ == Reading::payload && landing_) {
    for (size_t i = piece_; i < landing_->pieces.size() && pieces.size() < kPiecesMax; ++i) {
      auto piece = landing_->pieces[i];
      if (i == piece_) piece = piece.subspan(piece_offset_);
      if (piece.empty()) continue;
      pieces.push_back(iovec_of(piece));
      bytes += piece.size();
    }
    all = bytes == payload_left_;
  } else if (reading_ == Reading::payload) {
    bytes = std::min<uint64_t>(payload_left_, scratch().size());
    pieces.push_back(iovec_of(scratch().first(bytes)));
    all = bytes == payload_left_;
  }
  if (!all) return 0;
  size_t room = buffer_.size() - end_;
  pieces.push_back({buffer_.data() + end_, room});
  return room;
}

// `bytes` arrived where target() said.
void FrameStream::landed(size_t bytes) {
  if (reading_ == Reading::message) body_have_ += bytes;
  if (reading_ != Reading::payload) return;
  payload_left_ -= bytes;
  while (landing_ && piece_ < landing_->pieces.size()) {
    size_t room = landing_->pieces[piece_].size() - piece_offset_;
    if (bytes < room) {
      piece_offset_ += bytes;
      break;
    }
    bytes -= room;
    ++piece_;
    piece_offset_ = 0;
  }
}

ssize_t FrameStream::receive(std::vector<iovec>& pieces) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))];
  if (options_.receive_fds) {   // otherwise the kernel closes what a peer tries to hand us
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  ssize_t got = recvmsg(watch_->fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (got <= 0 || !options_.receive_fds) return got;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof fd, sizeof fd);
      if (received_fds_.size() < kFdsMax) received_fds_.push_back(fd);
      else ::close(fd);
    }
  }
  return got;
}

bool FrameStream::consume() {
  auto self = shared_from_this();   // a handler may drop us
  while (watch_) {
    switch (reading_) {
      case Reading::header:
        if (paused_) return false;
        if (end_ - begin_ < wire::kFrameHeaderBytes) return true;
        if (!header_complete()) return false;
        break;
      case Reading::message: {
        size_t here = std::min(end_ - begin_, header_.message_bytes - body_have_);
        if (here > 0) {
          body_.resize(std::max(body_.size(), body_have_ + here));
          std::memcpy(body_.data() + body_have_, buffer_.data() + begin_, here);
          begin_ += here;
          body_have_ += here;
        }
        if (body_have_ < header_.message_bytes) return true;
        if (!message_complete()) return false;
        break;
      }
      case Reading::payload:
        while (payload_left_ > 0 && begin_ < end_) {
          size_t here = std::min<uint64_t>(end_ - begin_, payload_left_);
          if (landing_) {
            while (landing_->pieces[piece_].size() == piece_offset_) ++piece_, piece_offset_ = 0;
            here = std::min(here, landing_->pieces[piece_].size() - piece_offset_);
            std::memcpy(landing_->pieces[piece_].data() + piece_offset_, buffer_.data() + begin_, here);
          }
          begin_ += here;
          landed(here);
        }
        if (payload_left_ > 0) return true;
        payload_complete();
        break;
    }
  }
  return false;
}

bool FrameStream::header_complete() {
  std::memcpy(header_bytes_.data(), buffer_.data() + begin_, wire::kFrameHeaderBytes);
  auto header = wire::decode_header(header_bytes_);
  if (!header) return fail(std::move(header).error()), false;
  if (header->message_bytes > options_.message_bytes_max)
    return fail(Status(Code::corrupt, "a message of {} bytes before Hello was done", header->message_bytes)), false;
  if (header->payload_bytes > 0 && !options_.payloads) return fail(Status(Code::corrupt, "a payload before Hello was done")), false;
  begin_ += wire::kFrameHeaderBytes;
  header_ = *header;
  body_.clear();
  body_have_ = 0;
  reading_ = Reading::message;
  return true;
}

bool FrameStream::message_complete() {
  Status verified = wire::check_message(header_bytes_, body_);
  if (!verified.ok()) return fail(std::move(verified)), false;
  if (header_.payload_bytes == 0) {
    reading_ = Reading::header;
    handler_->frame(header_, std::exchange(body_, {}), {});
    return true;
  }
  reading_ = Reading::payload;
  payload_left_ = header_.payload_bytes;
  piece_ = piece_offset_ = 0;
  auto landing = handler_->payload_begins(header_, body_);
  MP_CHECK(!landing || total_bytes(landing->pieces) == header_.payload_bytes, "landing of another size than its payload of {}", header_.payload_bytes);
  if (watch_) landing_ = std::move(landing);
  return true;
}

void FrameStream::payload_complete() {
  reading_ = Reading::header;
  if (!landing_) return;
  Landing landing = std::move(*landing_);
  landing_.reset();
  handler_->frame(header_, std::exchange(body_, {}), std::move(landing));
}

void FrameStream::abandon_payload() { landing_.reset(); }

// ---- Writing ----

void FrameStream::send(OutFrame frame) {
  if (!watch_) return;
  Out out;
  frame.header.message_bytes = uint32_t(frame.message.body.size());
  frame.header.payload_bytes = total_bytes(frame.message.payload);
  out.total = wire::kFrameHeaderBytes + frame.header.message_bytes + frame.header.payload_bytes;
  out.frame = std::move(frame);
  if (out_.empty()) write_last_ = Loop::now();
  out_.push_back(std::move(out));
  schedule_flush();
}

void FrameStream::schedule_flush() {
  if (flush_scheduled_ || write_waiting_ || !watch_) return;
  flush_scheduled_ = true;
  // Not now: what else this turn of the loop sends goes with the same system call.
  loop_->post([self = shared_from_this()] {
    self->flush_scheduled_ = false;
    self->flush();
  });
}

FrameStream::Cancelled FrameStream::cancel(uint64_t request_id) {
  auto out = std::find_if(out_.begin(), out_.end(), [&](const Out& o) { return o.frame.header.request_id == request_id; });
  if (out == out_.end()) return Cancelled::not_there;
  if (out->sent == 0) {
    out_.erase(out);
    return Cancelled::removed;
  }
  return out->frame.message.payload.empty() ? Cancelled::owned_rest_goes_on : Cancelled::payload_under_way;
}

void FrameStream::gather(std::vector<iovec>& pieces, size_t& bytes, Time now) {
  for (auto& out : out_) {
    if (pieces.size() + 2 > kPiecesMax || bytes >= kTurnBytes) return;
    if (!out.frame.fds.empty() && &out != &out_.front()) return;   // its descriptors ride on its own first byte
    if (!out.encoded) {
      out.frame.header.since_hello_ms = since_hello_ms(now);
      if (out.frame.deadline) out.frame.header.deadline_us = uint32_t(std::clamp<int64_t>(microseconds(*out.frame.deadline - now), 0, UINT32_MAX));
      out.header = wire::encode_header(out.frame.header, out.frame.message.body);
      out.encoded = true;
    }
    uint64_t skip = out.sent;
    auto add = [&](ByteSpan part) {
      if (skip >= part.size()) {
        skip -= part.size();
        return;
      }
      part = part.subspan(skip);
      skip = 0;
      pieces.push_back(iovec_of(part));
      bytes += part.size();
    };
    add(out.header);
    add(out.frame.message.body);
    for (auto& part : out.frame.message.payload) {
      if (pieces.size() >= kPiecesMax) return;
      add(part);
    }
    if (!out.frame.fds.empty()) return;
  }
}

ssize_t FrameStream::transmit(std::vector<iovec>& pieces) {
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = pieces.size();
  alignas(cmsghdr) char control[CMSG_SPACE(kFdsMax * sizeof(int))];
  auto& front = out_.front();
  if (!front.frame.fds.empty() && front.sent == 0) {
    size_t count = std::min(front.frame.fds.size(), kFdsMax);
    std::memset(control, 0, sizeof control);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(count * sizeof(int));
    std::memcpy(CMSG_DATA(part), front.frame.fds.data(), count * sizeof(int));
  }
  return sendmsg(watch_->fd(), &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void FrameStream::flush() {
  auto self = shared_from_this();
  std::vector<iovec> pieces;
  for (size_t turn = 0; watch_ && !out_.empty() && turn < kTurnBytes;) {
    pieces.clear();
    size_t bytes = 0;
    Time now = Loop::now();
    gather(pieces, bytes, now);
    ssize_t put = transmit(pieces);
    if (put < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) break;
      return fail(Status(Code::unavailable, "the connection broke: {}", std::strerror(errno)));
    }
    write_last_ = now;
    metrics_.bytes_out.add(uint64_t(put));
    turn += size_t(put);
    advance(size_t(put));
    if (size_t(put) < bytes) break;
  }
  if (!watch_) return;
  if (out_.empty()) {
    if (close_when_sent_) close();
    return;
  }
  if (write_waiting_) return;
  write_waiting_ = true;
  watch_->wait_write([self] {
    self->write_waiting_ = false;
    self->flush();
  });
}

void FrameStream::advance(size_t bytes) {
  while (bytes > 0) {
    auto& front = out_.front();
    uint64_t step = std::min<uint64_t>(bytes, front.total - front.sent);
    front.sent += step;
    bytes -= step;
    if (front.sent < front.total) return;
    Out done = std::move(front);                 // kept until the handler knows
    out_.pop_front();
    handler_->sent(done.frame.header.request_id);
    if (!watch_) return;
  }
}

// ---- Ending ----

void FrameStream::close() {
  watch_.reset();
  landing_.reset();
  out_.clear();
}

void FrameStream::close_when_sent(Duration limit) {
  static Deaf deaf;
  handler_ = &deaf;
  close_when_sent_ = true;
  if (out_.empty()) schedule_flush();
  loop_->at(Loop::now() + limit, [self = shared_from_this()] { self->close(); });
}

void FrameStream::fail(Status reason) {
  if (!watch_) return;
  if (reason.code() == Code::corrupt) {
    MP_REACHED("rpc: a corrupt frame");
    metrics_.frames_corrupt.add();
  }
  auto self = shared_from_this();
  close();
  handler_->closed(std::move(reason));
}

void FrameStream::check_stall(Time before) {
  if (!watch_) return;
  bool half_read = !paused_ && (reading_ != Reading::header || begin_ < end_);
  if ((half_read && read_last_ < before) || (!out_.empty() && write_last_ < before)) {
    MP_REACHED("rpc: half a frame stood still");
    metrics_.stalled.add();
    fail(Status(Code::unavailable, "half a frame stood still"));
  }
}

}  // namespace millpond::rpc
