// One connection: two ends, an ordered stream of frames each way. See sim/network.h for what it does to them.
#pragma once
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "rpc/runtime.h"
#include "sim/network.h"
#include "wire/frame.h"

namespace millpond::sim {

// Who sits at one end. Called on its process's loop.
class End {
 public:
  virtual ~End() = default;
  // A frame's header and message are here. Answers where its payload goes; nullopt: drain it.
  virtual std::optional<rpc::Landing> head(const wire::FrameHeader& header, ByteVector message) = 0;
  // The whole frame is here: the last head() and the payload where it said.
  virtual void whole(const wire::FrameHeader& header, rpc::Landing landing, bool drained) = 0;
  virtual void closed(const Status& why) = 0;
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  enum Side { client = 0, server = 1 };

  struct Outgoing {
    wire::Kind kind = wire::Kind::none;
    bool reply = false;
    uint64_t request_id = 0;
    Time deadline = Time::max();         // of a request, in world time
    ByteVector message;
    std::vector<ByteSpan> payload;
    std::shared_ptr<const void> keep;
  };

  Connection(Network& network, uint64_t id, ProcessId client, ProcessId server);

  uint64_t id() const { return id_; }
  ProcessId process(Side side) const { return ends_[side].process; }
  void attach(Side side, std::weak_ptr<End> end) { ends_[side].end = std::move(end); }
  void keep(std::shared_ptr<End> serving) { serving_ = std::move(serving); }
  void hello_done(Side side);            // since_hello counts from here
  Time hello_time(Side side) const { return ends_[side].hello; }

  void send(Side side, Outgoing frame);
  // The memory of this request's payload must not be read any more. Half sent already: the connection closes, since
  // there is no other way to say where the next frame starts.
  void abandon(Side side, uint64_t request_id);
  // Nothing more may be written to where the payload of this reply was to land.
  void stop_landing(Side side, uint64_t request_id);

  void close(Side side);                 // by this end; the other learns it later
  void break_both(const Status& why);    // both learn it
  void process_gone(Side side, bool silent);
  bool closed(Side side) const { return ends_[side].closed; }
  bool over() const { return ends_[0].closed && ends_[1].closed; }

  void healed(Side source);              // the link from this end is whole again: go on

 private:
  struct Segment {
    ByteVector bytes;
    bool fin = false;
  };
  struct EndState {
    ProcessId process;
    std::weak_ptr<End> end;
    Time hello;
    bool closed = false;
    // outgoing
    std::deque<Outgoing> queue;
    bool head_sent = false;              // of queue.front()
    uint64_t payload_sent = 0;
    bool pumping = false;
    Time arrival_last;
    std::deque<Segment> stalled;
    uint64_t stalled_bytes = 0;
    bool stall_watched = false;
    // incoming
    bool in_frame = false;
    wire::FrameHeader header;
    rpc::Landing landing;
    bool drain = false;
    uint64_t payload_here = 0;
  };

  static Side other(Side side) { return side == client ? server : client; }
  bool link_cut(Side source) const;
  void pump(Side side);
  void emit(Side source, Segment segment);
  void schedule(Side source, Segment segment);
  void watch_stall(Side source);
  void arrived(Side target, Segment segment);
  void end_here(Side side, const Status& why);
  void settle();

  Network& network_;
  const uint64_t id_;
  EndState ends_[2];
  std::shared_ptr<End> serving_;         // the server's end
};

}  // namespace millpond::sim
