// The frame: a fixed header, a message (a FlatBuffer of `kind`), then a raw payload. Pure functions of bytes.
// Every length is bounded here, before anyone allocates; one checksum covers header and message, the payload has its
// own in the message. Design: docs/design/wire.md.
#pragma once
#include <array>
#include <cstdint>

#include "base/bytes.h"
#include "base/status.h"
#include "wire/kind.h"

namespace millpond::wire {

inline constexpr uint32_t kFrameMagic = 0x3146504d;       // "MPF1" as bytes
inline constexpr uint16_t kFrameVersion = 1;              // of this layout; Hello is spoken in version 1 for ever
inline constexpr uint16_t kProtocolMin = 1;               // what this release speaks after Hello
inline constexpr uint16_t kProtocolMax = 1;
inline constexpr size_t kFrameHeaderBytes = 56;
inline constexpr uint64_t kHelloBytesMax = 64 << 10;      // a message before Hello is done; it has no payload

enum FrameFlag : uint32_t { kFlagReply = 1 };             // answers the request with this id

struct FrameHeader {
  Kind kind = Kind::none;
  uint32_t flags = 0;
  uint64_t request_id = 0;               // the caller's choice, unique among its calls in flight on this connection
  uint32_t deadline_us = 0;              // remaining when sent (saturates at 71 min); 0 in replies and Hello
  uint64_t since_hello_ms = 0;           // when sent, on the sender's clock, since it finished Hello
  uint32_t message_bytes = 0;
  uint64_t payload_bytes = 0;
  uint64_t checksum = 0;

  bool reply() const { return flags & kFlagReply; }
};

using FrameHeaderBytes = std::array<std::byte, kFrameHeaderBytes>;

// The header as it travels, for this message: message_bytes and checksum of `header` are ignored and computed.
// REQUIRES: message and header.payload_bytes within wire/limits.h.
FrameHeaderBytes encode_header(const FrameHeader& header, ByteSpan message);

// corrupt: fewer than kFrameHeaderBytes, another magic or version, unknown flags, a length beyond wire/limits.h.
// The checksum is not checked yet: that needs the message. Nothing in it may be acted on before, but its lengths.
Result<FrameHeader> decode_header(ByteSpan bytes);

// corrupt: header and message are not what was sent. REQUIRES: decode_header(header_bytes) succeeded.
Status check_message(ByteSpan header_bytes, ByteSpan message);

// The body of a Failure message, and back. An ok or unknown code arrives as internal, so that a Failure never reads as success.
ByteVector failure_body(const Status& status);
Status failure_status(ByteSpan body);

}  // namespace millpond::wire
