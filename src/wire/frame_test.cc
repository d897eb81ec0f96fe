// Goal: what was sent is what is read; anything else is `corrupt`, says which value was wrong, and allocates nothing.
// Method: round trips, every single-bit flip of a small frame, every truncation, lengths at and beyond the limits.
#include "wire/frame.h"

#include <gmock/gmock.h>

#include <cstring>

#include "wire/limits.h"
#include "wire/message.h"

namespace millpond::wire {
namespace {

using testing::HasSubstr;

ByteVector bytes_of(std::string_view text) {
  auto span = as_bytes(text);
  return ByteVector(span.begin(), span.end());
}

FrameHeader example() {
  return {.kind = Kind::lookup, .request_id = 7, .deadline_us = 100'000, .since_hello_ms = 1'234, .payload_bytes = 65'536};
}

template <typename T>
void put(FrameHeaderBytes& bytes, size_t offset, T value) { std::memcpy(bytes.data() + offset, &value, sizeof value); }

TEST(Frame, SurvivesTheTrip) {
  ByteVector message = bytes_of("sixteen leading keys");
  FrameHeaderBytes bytes = encode_header(example(), message);
  auto header = decode_header(bytes);
  ASSERT_TRUE(header) << header.error().text();
  EXPECT_EQ(header->kind, Kind::lookup);
  EXPECT_EQ(header->request_id, 7u);
  EXPECT_EQ(header->deadline_us, 100'000u);
  EXPECT_EQ(header->since_hello_ms, 1'234u);
  EXPECT_EQ(header->message_bytes, message.size());
  EXPECT_EQ(header->payload_bytes, 65'536u);
  EXPECT_FALSE(header->reply());
  EXPECT_TRUE(check_message(bytes, message).ok());
}

// The worked example of docs/design/wire.md: the layout never changes without a new version.
TEST(Frame, LayoutIsTheDocumentedOne) {
  FrameHeaderBytes bytes = encode_header(example(), bytes_of("hello"));
  std::string hex;
  for (std::byte b : bytes) hex += fmt::format("{:02x}", uint8_t(b));
  EXPECT_EQ(hex,
            "4d504631" "0100" "1000" "0700000000000000" "0000010000000000" "05000000" "a0860100" "d204000000000000" "00000000" "00000000"
            "4b419674e4c07eb9");
}

TEST(Frame, EmptyMessageAndReplyFlag) {
  FrameHeader header{.kind = Kind::stat_reply, .flags = kFlagReply, .request_id = ~0ull};
  FrameHeaderBytes bytes = encode_header(header, {});
  auto read = decode_header(bytes);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->reply());
  EXPECT_EQ(read->request_id, ~0ull);
  EXPECT_TRUE(check_message(bytes, {}).ok());
}

TEST(Frame, EveryFlippedBitIsNoticed) {
  ByteVector message = bytes_of("a message whose every bit counts");
  const FrameHeaderBytes good = encode_header(example(), message);
  for (size_t bit = 0; bit < 8 * good.size(); ++bit) {
    FrameHeaderBytes bad = good;
    bad[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_FALSE(decode_header(bad) && check_message(bad, message).ok()) << "header bit " << bit;
  }
  for (size_t bit = 0; bit < 8 * message.size(); ++bit) {
    ByteVector bad = message;
    bad[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_EQ(check_message(good, bad).code(), Code::corrupt) << "message bit " << bit;
  }
}

TEST(Frame, TruncatedIsCorrupt) {
  ByteVector message = bytes_of("cut here");
  FrameHeaderBytes bytes = encode_header(example(), message);
  for (size_t size = 0; size < bytes.size(); ++size) {
    auto header = decode_header(ByteSpan(bytes).first(size));
    ASSERT_FALSE(header);
    EXPECT_EQ(header.error().code(), Code::corrupt);
  }
  for (size_t size = 0; size < message.size(); ++size) EXPECT_EQ(check_message(bytes, ByteSpan(message).first(size)).code(), Code::corrupt);
}

TEST(Frame, LengthsAreBoundedBeforeAnyoneAllocates) {
  FrameHeaderBytes bytes = encode_header(example(), {});
  put<uint32_t>(bytes, 24, kMessageBytesMax);
  put<uint64_t>(bytes, 16, kPayloadBytesMax);
  EXPECT_TRUE(decode_header(bytes));
  put<uint32_t>(bytes, 24, kMessageBytesMax + 1);
  EXPECT_THAT(decode_header(bytes).error().message(), HasSubstr("16777217"));
  put<uint32_t>(bytes, 24, 0);
  put<uint64_t>(bytes, 16, kPayloadBytesMax + 1);
  EXPECT_THAT(decode_header(bytes).error().message(), HasSubstr("2147483649"));
  put<uint64_t>(bytes, 16, ~0ull);
  EXPECT_FALSE(decode_header(bytes));
}

TEST(Frame, OtherProtocolsAndVersionsAreNamed) {
  FrameHeaderBytes bytes{};
  std::memcpy(bytes.data(), "GET / HTTP/1.1\r\n", 16);
  EXPECT_THAT(decode_header(bytes).error().message(), HasSubstr("does not speak Millpond"));
  bytes = encode_header(example(), {});
  put<uint16_t>(bytes, 4, 9);
  EXPECT_THAT(decode_header(bytes).error().message(), HasSubstr("version 9"));
  bytes = encode_header(example(), {});
  put<uint32_t>(bytes, 40, 0x80);
  EXPECT_THAT(decode_header(bytes).error().message(), HasSubstr("unknown flags 80"));
}

TEST(Failure, CarriesCodeAndReason) {
  Status status = failure_status(failure_body(Status(Code::no_space, "arena full")));
  EXPECT_EQ(status.code(), Code::no_space);
  EXPECT_EQ(status.message(), "arena full");
}

TEST(Failure, NeverReadsAsSuccess) {
  EXPECT_EQ(failure_status(failure_body(Status())).code(), Code::internal);
  Builder builder;
  EXPECT_EQ(failure_status(finish(builder, CreateFailure(builder, 200))).code(), Code::internal);
  EXPECT_EQ(failure_status({}).code(), Code::corrupt);
  EXPECT_EQ(failure_status(bytes_of("not a flatbuffer at all")).code(), Code::corrupt);
}

TEST(Failure, ReasonIsBounded) {
  Status status = failure_status(failure_body(Status(Code::invalid, std::string(1 << 20, 'x'))));
  EXPECT_EQ(status.message().size(), 4096u);
}

}  // namespace
}  // namespace millpond::wire
