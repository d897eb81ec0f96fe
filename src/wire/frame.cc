#include "wire/frame.h"

#include <bit>
#include <cstddef>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "wire/limits.h"
#include "wire/message.h"

namespace millpond::wire {
namespace {

static_assert(std::endian::native == std::endian::little, "frames are little-endian and copied as they stand in memory");

struct Layout {
  uint32_t magic;
  uint16_t version;
  uint16_t kind;
  uint64_t request_id;
  uint64_t payload_bytes;
  uint32_t message_bytes;
  uint32_t deadline_us;
  uint64_t since_hello_ms;
  uint32_t flags;
  uint32_t zero;
  uint64_t checksum;
};
static_assert(sizeof(Layout) == kFrameHeaderBytes);
static_assert(offsetof(Layout, checksum) == 48);
static_assert(kMessageBytesMax <= UINT32_MAX);

constexpr uint32_t kFlagsKnown = kFlagReply;
constexpr size_t kReasonBytesMax = 4096;

// Two hashes chained by the seed: no streaming state, and both parts are covered.
uint64_t frame_checksum(Layout layout, ByteSpan message) {
  layout.checksum = 0;
  return hash64(message, hash64(std::as_bytes(std::span(&layout, 1))));
}

}  // namespace

FrameHeaderBytes encode_header(const FrameHeader& header, ByteSpan message) {
  MP_CHECK(message.size() <= kMessageBytesMax, "a message of {} bytes", message.size());
  MP_CHECK(header.payload_bytes <= kPayloadBytesMax, "a payload of {} bytes", header.payload_bytes);
  Layout layout{.magic = kFrameMagic,
                .version = kFrameVersion,
                .kind = uint16_t(header.kind),
                .request_id = header.request_id,
                .payload_bytes = header.payload_bytes,
                .message_bytes = uint32_t(message.size()),
                .deadline_us = header.deadline_us,
                .since_hello_ms = header.since_hello_ms,
                .flags = header.flags,
                .zero = 0,
                .checksum = 0};
  layout.checksum = frame_checksum(layout, message);
  return std::bit_cast<FrameHeaderBytes>(layout);
}

Result<FrameHeader> decode_header(ByteSpan bytes) {
  if (bytes.size() < kFrameHeaderBytes)
    return error(Code::corrupt, "a frame header of {} bytes, {} expected", bytes.size(), kFrameHeaderBytes);
  Layout layout;
  std::memcpy(&layout, bytes.data(), sizeof layout);
  if (layout.magic != kFrameMagic)
    return error(Code::corrupt, "a frame starts with {:08x}: the peer does not speak Millpond's protocol", layout.magic);
  if (layout.version != kFrameVersion)
    return error(Code::corrupt, "a frame of version {}, this release reads {}", layout.version, kFrameVersion);
  if ((layout.flags & ~kFlagsKnown) || layout.zero)
    return error(Code::corrupt, "a frame with unknown flags {:x} {:x}", layout.flags, layout.zero);
  if (layout.message_bytes > kMessageBytesMax)
    return error(Code::corrupt, "a frame announces a message of {} bytes, at most {} may come", layout.message_bytes, kMessageBytesMax);
  if (layout.payload_bytes > kPayloadBytesMax)
    return error(Code::corrupt, "a frame announces a payload of {} bytes, at most {} may come", layout.payload_bytes, kPayloadBytesMax);
  return FrameHeader{.kind = Kind(layout.kind),
                     .flags = layout.flags,
                     .request_id = layout.request_id,
                     .deadline_us = layout.deadline_us,
                     .since_hello_ms = layout.since_hello_ms,
                     .message_bytes = layout.message_bytes,
                     .payload_bytes = layout.payload_bytes,
                     .checksum = layout.checksum};
}

Status check_message(ByteSpan header_bytes, ByteSpan message) {
  MP_CHECK(header_bytes.size() >= kFrameHeaderBytes, "a frame header of {} bytes", header_bytes.size());
  Layout layout;
  std::memcpy(&layout, header_bytes.data(), sizeof layout);
  if (layout.message_bytes != message.size())
    return Status(Code::corrupt, "a message of {} bytes where the header announces {}", message.size(), layout.message_bytes);
  uint64_t sum = frame_checksum(layout, message);
  if (sum != layout.checksum)
    return Status(Code::corrupt, "a {} frame of {} bytes does not verify: checksum {:016x}, announced {:016x}",
                  name(Kind(layout.kind)), message.size(), sum, layout.checksum);
  return Status();
}

ByteVector failure_body(const Status& status) {
  Builder builder;
  std::string_view reason = std::string_view(status.message()).substr(0, kReasonBytesMax);
  auto text = builder.CreateString(reason.data(), reason.size());
  return finish(builder, CreateFailure(builder, uint8_t(status.code()), text));
}

Status failure_status(ByteSpan body) {
  auto failure = parse<Failure>(body);
  if (!failure) return std::move(failure).error();
  std::string reason(text_of((*failure)->reason()).substr(0, kReasonBytesMax));
  uint8_t code = (*failure)->code();
  if (code == uint8_t(Code::ok) || code > uint8_t(Code::internal)) return Status(Code::internal, "the peer failed with code {}: {}", code, reason);
  return Status(Code(code), std::move(reason));
}

}  // namespace millpond::wire
