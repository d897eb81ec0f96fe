// Frames over one socket: reads them into memory that the handler names, writes several with one system call.
//
// Lives on: the loop. Bytes of a payload go straight from the socket to their pieces; what little of it came with the
// header (at most 16 KiB) is copied. A message's memory grows as its bytes arrive, not by what its header claims.
#pragma once
#include <sys/uio.h>

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "rpc/loop.h"
#include "rpc/rpc_metrics.h"
#include "rpc/runtime.h"
#include "wire/frame.h"

namespace millpond::rpc {

struct OutFrame {
  wire::FrameHeader header;              // kind, flags, request_id; the rest is filled in when sent
  Message message;
  std::optional<Time> deadline;          // of a request: what is left of it travels
  std::vector<int> fds;                  // lent; over a Unix socket, with this frame's first byte
};

class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // A verified message is here, its payload follows: where to? REQUIRES: the pieces' total = header.payload_bytes.
  // Nothing: it is drained, and frame() is not called. May take the body.
  virtual std::optional<Landing> payload_begins(const wire::FrameHeader& header, ByteVector& body) = 0;
  virtual void frame(const wire::FrameHeader& header, ByteVector body, Landing landing) = 0;
  virtual void sent(uint64_t request_id) = 0;         // nothing of this frame's memory is needed any more
  // Once, unless close() was called first. corrupt, or unavailable.
  virtual void closed(Status reason) = 0;
};

class FrameStream : public std::enable_shared_from_this<FrameStream> {
 public:
  struct Options {
    uint64_t message_bytes_max;
    bool payloads = true;
    bool receive_fds = false;
  };
  FrameStream(std::shared_ptr<Loop> loop, RpcMetrics& metrics, std::unique_ptr<Watch> watch, Options options, FrameHandler* handler);
  ~FrameStream();

  void start();                                       // begins to read
  void hello_done(Time now, uint64_t message_bytes_max);
  uint64_t since_hello_ms(Time now) const;

  void send(OutFrame frame);                          // sent at the end of this turn of the loop
  enum class Cancelled { not_there, removed, owned_rest_goes_on, payload_under_way };
  Cancelled cancel(uint64_t request_id);

  void pause(bool paused);                            // stops reading at the next frame
  void abandon_payload();                             // the payload being read is drained from here on
  void close();                                       // at once; the handler hears nothing more
  void close_when_sent(Duration limit);               // or after `limit`; the handler hears nothing more
  bool closed() const { return !watch_; }
  // Closes (and tells the handler) if half a frame has not moved since `before`.
  void check_stall(Time before);

  std::vector<int> take_received_fds() { return std::exchange(received_fds_, {}); }   // owned by the caller

 private:
  enum class Reading { header, message, payload };
  struct Out {
    OutFrame frame;
    wire::FrameHeaderBytes header{};
    bool encoded = false;
    uint64_t total = 0;
    uint64_t sent = 0;
  };

  void read_ready();
  bool consume();                                     // false: stop reading for now
  bool header_complete();
  bool message_complete();
  void payload_complete();
  size_t target(std::vector<iovec>& pieces, size_t& bytes);
  void landed(size_t bytes);
  ssize_t receive(std::vector<iovec>& pieces);
  void wait_read();

  void schedule_flush();
  void flush();
  void gather(std::vector<iovec>& pieces, size_t& frames, Time now);
  ssize_t transmit(std::vector<iovec>& pieces);
  void advance(size_t bytes);

  void fail(Status reason);

  std::shared_ptr<Loop> loop_;
  RpcMetrics& metrics_;
  std::unique_ptr<Watch> watch_;
  Options options_;
  FrameHandler* handler_;
  std::optional<Time> hello_done_;

  Reading reading_ = Reading::header;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0, end_ = 0;                        // what of the buffer is not consumed
  wire::FrameHeader header_;
  wire::FrameHeaderBytes header_bytes_{};
  ByteVector body_;
  size_t body_have_ = 0;
  std::optional<Landing> landing_;                    // empty while draining
  size_t piece_ = 0;                                  // position in landing_
  size_t piece_offset_ = 0;
  uint64_t payload_left_ = 0;
  bool paused_ = false;
  bool read_waiting_ = false;
  Time read_last_{};
  std::vector<int> received_fds_;

  std::deque<Out> out_;
  bool flush_scheduled_ = false;
  bool write_waiting_ = false;
  bool close_when_sent_ = false;
  Time write_last_{};
};

}  // namespace millpond::rpc
