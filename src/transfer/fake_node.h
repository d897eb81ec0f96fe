// For unit tests of rooms above transfer: what a node answers to Read, Store, Reserve, Commit and Recheck, out of a map
// and a small arena of its own; with faults on demand.
#pragma once
#include <algorithm>
#include <map>

#include "base/check.h"
#include "base/checksum.h"
#include "memory/arena.h"
#include "transfer/fake_world.h"
#include "wire/message.h"

namespace millpond::transfer {

class FakeNode {
 public:
  struct Block {
    ByteVector bytes;
    std::vector<uint64_t> sums;
    uint64_t root = 0;
  };
  static constexpr uint64_t kPage = 64 << 10;
  static constexpr uint32_t kPages = 1024;

  FakeNode() {
    auto made = memory::Arena::create({.capacity = {kPage * kPages}, .page_size = {kPage}, .hugepages = false, .name = "fake node"});
    MP_CHECK(made.has_value(), "{}", made.error().text());
    memory_ = *std::move(made);
    arena_ = memory_->bytes().data();
  }

  // Answers at `address` ("host:port" or "unix:/path").
  void attach(FakeWorld& world, const std::string& address, NodeId id = {}, NodeEpoch epoch = {}) {
    auto& peer = world.peer(address);
    peer.node_id = id, peer.node_epoch = epoch;
    if (address.starts_with("unix:")) peer.shared_fds = {memory_->fd(), memory_->read_only_fd()};
    peer.serve = [this](wire::Kind kind, const ByteVector& body, const ByteVector& payload) { return serve(kind, body, payload); };
  }

  void put(const KeyHash& key, ByteVector bytes) {
    std::vector<ByteSpan> pieces{ByteSpan(bytes)};
    auto sums = checksum(pieces, key.seed);
    blocks[key.id] = {std::move(bytes), sums.sums, sums.root};
  }

  std::map<BlockId, Block> blocks;
  // Faults.
  std::function<bool(wire::Kind)> silent = [](wire::Kind) { return false; };      // never answers this
  int corrupt_reads = 0;                 // so many Read replies carry a flipped bit in each block
  int corrupt_stores = 0;                // so many Store requests arrive with a flipped bit
  int64_t page_shift = 0;                // added to every page it names
  bool full = false;
  uint64_t room = UINT64_MAX;            // bytes that may be reserved at once
  size_t answer_max = SIZE_MAX;          // so many blocks fit into one Read reply
  uint32_t generation = 0;
  size_t reserved = 0;                   // reservations not committed and not aborted
  size_t rechecked = 0;
  Duration delay = std::chrono::microseconds(10);
  std::function<void(wire::Kind)> before_answer = [](wire::Kind) {};

 private:
  struct Reservation {
    BlockId id;
    uint32_t page = 0;
    uint64_t length = 0;
  };

  std::optional<FakeReply> serve(wire::Kind kind, const ByteVector& body, const ByteVector& payload) {
    std::optional<FakeReply> reply;
    if (kind == wire::Kind::read) reply = read(*wire::parse<wire::Read>(body));
    if (kind == wire::Kind::store) reply = store(*wire::parse<wire::Store>(body), payload);
    if (kind == wire::Kind::reserve) reply = reserve(*wire::parse<wire::Reserve>(body));
    if (kind == wire::Kind::commit) reply = commit(*wire::parse<wire::Commit>(body));
    if (kind == wire::Kind::recheck) reply = recheck(*wire::parse<wire::Recheck>(body));
    if (silent(kind)) return std::nullopt;
    reply->delay = delay;
    before_answer(kind);
    return reply;
  }

  FakeReply read(const wire::Read* request) {
    FakeReply reply{.kind = wire::Kind::read_reply};
    std::vector<wire::ReadBlock> answers;
    std::vector<uint64_t> sums;
    std::vector<uint32_t> pages;
    bool flip = corrupt_reads > 0 && corrupt_reads-- > 0;
    for (auto& wire_id : wire::span_of(request->ids())) {
      auto found = blocks.find(wire::id_of(wire_id));
      bool answer_full = answers.size() >= answer_max;
      if (found == blocks.end() || answer_full) {
        answers.emplace_back(0, 0, 0, 0, 0, 0, 0, 0, uint8_t(answer_full ? Code::overloaded : Code::miss), 0, 0);
        continue;
      }
      auto block = found->second;
      uint32_t page_first = pages.size(), page_count = 0, sum_first = sums.size();
      if (flip) block.bytes[block.bytes.size() / 2] ^= std::byte(1);
      if (request->places()) {
        page_count = chunk_count(block.bytes.size());
        auto first = take_pages(page_count);
        for (uint32_t p = 0; p < page_count; ++p) pages.push_back(uint32_t(first + p + page_shift));
        std::memcpy(arena_ + first * kPage, block.bytes.data(), block.bytes.size());
      } else {
        reply.payload.insert(reply.payload.end(), block.bytes.begin(), block.bytes.end());
      }
      sums.insert(sums.end(), block.sums.begin(), block.sums.end());
      answers.emplace_back(block.root, 1, block.bytes.size(), sum_first, page_first, page_count, 0, 0, uint8_t(Code::ok), 0, 0);
    }
    wire::Builder builder;
    reply.body = wire::finish(builder, wire::CreateReadReply(builder, wire::structs<wire::ReadBlock>(builder, answers),
                                                             builder.CreateVector(sums), builder.CreateVector(pages)));
    return reply;
  }

  FakeReply store(const wire::Store* request, ByteVector payload) {
    std::vector<uint8_t> codes;
    size_t at = 0, sum_at = 0;
    if (corrupt_stores > 0 && corrupt_stores-- > 0) payload[payload.size() / 2] ^= std::byte(1);
    auto all_sums = wire::span_of(request->sums());
    for (auto& item : wire::span_of(request->items())) {
      auto id = wire::id_of(item.id());
      ByteVector bytes(payload.begin() + at, payload.begin() + at + item.length());
      auto sums = all_sums.subspan(sum_at, item.sum_count());
      at += item.length(), sum_at += item.sum_count();
      std::vector<ByteSpan> pieces{ByteSpan(bytes)};
      Code code = request->generation() < generation ? Code::stale : full ? Code::no_space : blocks.contains(id) ? Code::exists : Code::ok;
      if (code == Code::ok && !std::ranges::equal(checksum(pieces, 0).sums, sums)) code = Code::corrupt;
      if (code == Code::ok) blocks[id] = {std::move(bytes), {sums.begin(), sums.end()}, item.root()};
      codes.push_back(uint8_t(code));
    }
    FakeReply reply{.kind = wire::Kind::store_reply};
    wire::Builder builder;
    reply.body = wire::finish(builder, wire::CreateStoreReply(builder, builder.CreateVector(codes), generation));
    return reply;
  }

  FakeReply reserve(const wire::Reserve* request) {
    std::vector<wire::ReserveAnswer> answers;
    std::vector<uint32_t> pages;
    for (auto& item : wire::span_of(request->items())) {
      auto id = wire::id_of(item.id());
      Code code = request->generation() < generation ? Code::stale : full ? Code::no_space : blocks.contains(id) ? Code::exists : Code::ok;
      uint64_t held = 0;
      for (auto& [_, reservation] : reservations_) held += reservation.length;
      if (code == Code::ok && held + item.length() > room) code = Code::overloaded;
      if (code != Code::ok) {
        answers.emplace_back(0, 0, 0, 0, 0, 0, uint8_t(code), 0, 0);
        continue;
      }
      uint32_t count = chunk_count(item.length()), first = take_pages(count);
      answers.emplace_back(++handle_, 7, pages.size(), count, 0, 0, uint8_t(Code::ok), 0, 0);
      for (uint32_t p = 0; p < count; ++p) pages.push_back(uint32_t(first + p + page_shift));
      reservations_[handle_] = {id, first, item.length()};
    }
    reserved = reservations_.size();
    FakeReply reply{.kind = wire::Kind::reserve_reply};
    wire::Builder builder;
    reply.body = wire::finish(builder, wire::CreateReserveReply(builder, wire::structs<wire::ReserveAnswer>(builder, answers),
                                                                builder.CreateVector(pages), generation));
    return reply;
  }

  FakeReply commit(const wire::Commit* request) {
    std::vector<uint8_t> codes;
    auto sums = wire::span_of(request->sums());
    size_t sum_at = 0;
    for (auto& item : wire::span_of(request->items())) {
      auto found = reservations_.find(item.handle());
      if (found == reservations_.end()) {
        codes.push_back(uint8_t(Code::stale));
        continue;
      }
      auto reservation = found->second;
      reservations_.erase(found);
      codes.push_back(uint8_t(Code::ok));
      if (item.abort()) continue;
      auto* from = arena_ + reservation.page * kPage;
      auto mine = sums.subspan(sum_at, item.sum_count());
      sum_at += item.sum_count();
      blocks[reservation.id] = {ByteVector(from, from + reservation.length), {mine.begin(), mine.end()}, item.root()};
    }
    reserved = reservations_.size();
    FakeReply reply{.kind = wire::Kind::commit_reply};
    wire::Builder builder;
    reply.body = wire::finish(builder, wire::CreateCommitReply(builder, builder.CreateVector(codes)));
    return reply;
  }

  FakeReply recheck(const wire::Recheck* request) {
    std::vector<uint8_t> codes(wire::span_of(request->ids()).size(), uint8_t(Code::ok));
    rechecked += codes.size();
    FakeReply reply{.kind = wire::Kind::recheck_reply};
    wire::Builder builder;
    reply.body = wire::finish(builder, wire::CreateRecheckReply(builder, builder.CreateVector(codes)));
    return reply;
  }

  uint32_t take_pages(uint32_t count) {
    if (next_page_ + count > kPages) next_page_ = 0;
    return std::exchange(next_page_, next_page_ + count);
  }

  std::unique_ptr<memory::Arena> memory_;
  std::byte* arena_ = nullptr;
  uint32_t next_page_ = 0;
  uint64_t handle_ = 0;
  std::map<uint64_t, Reservation> reservations_;
};

}  // namespace millpond::transfer
