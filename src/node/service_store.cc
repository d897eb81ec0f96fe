// Blocks arriving: by the wire (Store) and from writers on this host that fill the pages themselves (Reserve, Commit).
#include <algorithm>

#include "base/reached.h"
#include "node/aligned.h"
#include "node/service.h"
#include "node/shared.h"
#include "node/store_items.h"
#include "wire/limits.h"
#include "wire/message.h"

namespace millpond::node {
namespace {

std::vector<uint8_t> as_bytes(const std::vector<Code>& codes) {
  std::vector<uint8_t> bytes;
  for (Code code : codes) bytes.push_back(uint8_t(code));
  return bytes;
}

// What the owner tells about generations: that of the first item's namespace.
uint32_t generation_of(const Shared& shared, const StoreItems& items) {
  return items.items.empty() ? 0 : shared.tier->generation(NamespaceId(items.items.front().spec.id.namespace_id));
}

}  // namespace

struct DataService::Arrival {
  struct Item {
    Code code = Code::ok;
    std::optional<tier::Reservation> room;
    uint64_t root = 0;
    size_t sum_first = 0;
  };
  std::shared_ptr<Shared> shared;        // first: the rooms go back into its tier
  std::vector<Item> items;
  std::vector<uint64_t> sums;
  bool visible = true;
  uint32_t space = 0;                    // of the first item
};

Result<rpc::Landing> DataService::land(const rpc::Request& request) {
  auto refuse = [&](Status status) {
    shared_.counters.requests_bad.add();
    return error(std::move(status));
  };
  if (request.kind != wire::Kind::store) return refuse(Status(Code::invalid, "{} carries no payload, but {} bytes came", wire::name(request.kind), request.payload_bytes));
  auto read = read_store(request.body);
  if (!read) return refuse(read.error());
  if (read->bytes != request.payload_bytes) return refuse(Status(Code::invalid, "the items have {} bytes, the payload {}", read->bytes, request.payload_bytes));

  auto arrival = std::make_shared<Arrival>();
  arrival->shared = shared_.shared_from_this();
  arrival->visible = read->visible;
  arrival->space = read->items.front().spec.id.namespace_id;   // there is one: no items, no payload
  rpc::Landing landing;
  for (auto& item : read->items) {
    Arrival::Item arriving{.root = item.root, .sum_first = item.sum_first};
    auto room = shared_.reserve(item.spec);
    if (room) {
      landing.pieces.insert(landing.pieces.end(), room->pieces().begin(), room->pieces().end());
      arriving.room = std::move(*room);
    } else {
      // Its bytes come all the same, between those of the others.
      MP_REACHED("node: payload without a home");
      arriving.code = room.error().code();
      for (uint64_t left = item.spec.length; left > 0;) {
        uint64_t step = std::min<uint64_t>(left, scratch_.size());
        landing.pieces.push_back(MutableByteSpan(scratch_).first(step));
        left -= step;
      }
    }
    arrival->items.push_back(std::move(arriving));
  }
  arrival->sums = std::move(read->sums);
  landing.state = std::move(arrival);
  return landing;
}

Result<void> DataService::serve_store(const rpc::Request& request, const Answerer& responder) {
  auto arrival = std::static_pointer_cast<Arrival>(request.landing.state);
  if (!arrival) {                        // no payload came
    MP_TRY(StoreItems read, read_store(request.body));
    if (!read.items.empty()) return error(Code::invalid, "the items have {} bytes, the payload none", read.bytes);
    arrival = std::make_shared<Arrival>();
  }
  Time now = shared_.runtime.now();
  std::vector<Code> codes;
  std::vector<uint64_t> events(arrival->items.size(), 0);
  for (size_t i = 0; i < arrival->items.size(); ++i) {
    auto& item = arrival->items[i];
    if (!item.room) {
      codes.push_back(item.code);
      continue;
    }
    auto& pieces = item.room->pieces();
    std::vector<ByteSpan> landed(pieces.begin(), pieces.end());
    uint64_t length = item.room->length();
    auto expected = std::span(arrival->sums).subspan(item.sum_first, chunk_count(length));
    if (!std::ranges::equal(checksum(landed, 0).sums, expected)) {
      MP_REACHED("node: arrived corrupt");
      shared_.counters.corrupt_arrivals.add();
      codes.push_back(Code::corrupt);
      item.room.reset();
      continue;
    }
    auto event = shared_.tier->commit(std::move(*item.room), expected, item.root, now);
    item.room.reset();
    codes.push_back(event ? Code::ok : event.error().code());
    if (event) {
      events[i] = *event;
      shared_.counters.store_bytes_tcp.add(length);
    }
  }
  finish_store(std::move(codes), std::move(events), arrival->visible, request.deadline,
               [responder, weak = shared_.weak_from_this(), space = arrival->space](std::vector<Code> codes) {
                 auto shared = weak.lock();
                 wire::Builder builder;
                 auto vector = builder.CreateVector(as_bytes(codes));
                 auto reply = wire::CreateStoreReply(builder, vector, shared ? shared->tier->generation(NamespaceId(space)) : 0);
                 responder->answer({.kind = wire::Kind::store_reply, .body = wire::finish(builder, reply)});
               });
  return {};
}

void DataService::finish_store(std::vector<Code> codes, std::vector<uint64_t> events, bool visible, Time deadline, std::function<void(std::vector<Code>)> answer) {
  std::vector<uint64_t> waiting;
  std::vector<size_t> of;                // waiting[k] belongs to codes[of[k]]
  for (size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] == Code::no_space) shared_.counters.store_no_space.add();
    if (codes[i] == Code::stale) shared_.counters.store_stale.add();
    if (codes[i] == Code::ok && events[i]) waiting.push_back(events[i]), of.push_back(i);
  }
  if (!visible || waiting.empty()) return answer(std::move(codes));
  shared_.wait_visible(std::move(waiting), shared_.answer_by(deadline),
                       [codes = std::move(codes), of = std::move(of), answer = std::move(answer)](std::vector<Visibility> outcomes) mutable {
                         for (size_t k = 0; k < of.size(); ++k) codes[of[k]] = Shared::code_of(outcomes[k]);
                         answer(std::move(codes));
                       });
}

Result<void> DataService::serve_reserve(const rpc::Request& request, const Answerer& responder) {
  if (!request.caller.same_host) return error(Code::invalid, "reserve is for writers on the same host (Unix socket); {} is not: use store", request.caller.address);
  MP_TRY(StoreItems read, read_reserve(request.body));
  std::vector<wire::ReserveAnswer> answers;
  std::vector<uint32_t> pages;
  const uint64_t pages_max = (wire::kMessageBytesMax - (1 << 20) - read.items.size() * sizeof(wire::ReserveAnswer)) / sizeof(uint32_t);
  for (auto& item : read.items) {
    auto refuse = [&](Code code) { answers.emplace_back(0, 0, 0, 0, 0, 0, uint8_t(code), 0, 0); };
    if (!reservations_.room_for(request.caller.connection, item.spec.length)) {
      MP_REACHED("node: a writer holds too much");
      refuse(Code::overloaded);
      continue;
    }
    auto room = shared_.reserve(item.spec);
    if (!room || pages.size() + room->places().pages.size() > pages_max) {
      Code code = room ? Code::overloaded : room.error().code();
      if (code == Code::no_space) shared_.counters.store_no_space.add();
      if (code == Code::stale) shared_.counters.store_stale.add();
      refuse(code);
      continue;
    }
    const tier::Places& places = room->places();
    answers.emplace_back(room->handle(), room->generation().value, uint32_t(pages.size()), uint32_t(places.pages.size()), places.offset, places.arena.value, uint8_t(Code::ok), 0, 0);
    for (auto page : places.pages) pages.push_back(page.value);
    reservations_.add(request.caller.connection, std::move(*room));
  }
  wire::Builder builder;
  auto answers_vector = wire::structs(builder, std::span<const wire::ReserveAnswer>(answers));
  auto pages_vector = builder.CreateVector(pages);
  auto reply = wire::CreateReserveReply(builder, answers_vector, pages_vector, generation_of(shared_, read), shared_.page_bytes());
  responder->answer({.kind = wire::Kind::reserve_reply, .body = wire::finish(builder, reply)});
  return {};
}

Result<void> DataService::serve_commit(const rpc::Request& request, const Answerer& responder) {
  MP_TRY(const wire::Commit* commit, wire::parse<wire::Commit>(request.body));
  auto items = aligned(commit->items());
  auto sums = aligned<uint64_t>(commit->sums());
  if (items.size() > wire::kIdsPerMessageMax) return error(Code::invalid, "{} items in one commit; {} at most", items.size(), wire::kIdsPerMessageMax);
  uint64_t sums_total = 0;
  for (auto& item : items) sums_total += item.sum_count();
  if (sums_total != sums.size()) return error(Code::invalid, "the items have {} sums, the message {}", sums_total, sums.size());

  Time now = shared_.runtime.now();
  ConnectionId connection = request.caller.connection;
  std::vector<Code> codes;
  std::vector<uint64_t> events;
  size_t sum_at = 0;
  for (auto& item : items) {
    auto item_sums = std::span(sums).subspan(sum_at, item.sum_count());
    sum_at += item.sum_count();
    events.push_back(0);
    auto length = reservations_.length(connection, item.handle(), item.generation());
    if (!length) {
      codes.push_back(Code::stale);      // not of this connection, or ended before
      continue;
    }
    auto room = reservations_.take(connection, item.handle(), item.generation());
    if (item.abort()) {
      codes.push_back(Code::ok);
      continue;
    }
    if (item_sums.size() != chunk_count(*length)) {
      codes.push_back(Code::invalid);    // its pages go back: without sums the bytes are of no use
      continue;
    }
    auto event = shared_.tier->commit(std::move(*room), item_sums, item.root(), now);
    codes.push_back(event ? Code::ok : event.error().code());
    if (event) {
      events.back() = *event;
      shared_.counters.store_bytes_shm.add(*length);
    }
  }
  finish_store(std::move(codes), std::move(events), commit->visible(), request.deadline, [responder](std::vector<Code> codes) {
    wire::Builder builder;
    auto vector = builder.CreateVector(as_bytes(codes));
    responder->answer({.kind = wire::Kind::commit_reply, .body = wire::finish(builder, wire::CreateCommitReply(builder, vector))});
  });
  return {};
}

}  // namespace millpond::node
