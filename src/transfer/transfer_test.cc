// Goal: on every path a read returns the stored bytes or says that it did not, writes nothing outside its pieces, and
// ends by its deadline. Method: one node made of functions, in virtual time, with faults on demand; each test runs over
// tcp and over shm.
#include <gtest/gtest.h>

#include <cstdlib>

#include "base/random.h"
#include "transfer/connect.h"
#include "transfer/fake_node.h"
#include "transfer/fallback_owner.h"
#include "transfer/piece_walk.h"
#include "transfer/read_reply.h"
#include "transfer/shm_owner.h"
#include "transfer/tcp_owner.h"
#include "wire/limits.h"

namespace millpond::transfer {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

ByteVector some_bytes(size_t count, uint64_t seed) {
  Random random(seed);
  ByteVector bytes(count);
  for (auto& b : bytes) b = std::byte(random.next());
  return bytes;
}

KeyHash key(const std::string& text) { return hash_key({}, text); }

// Memory with a guard of known bytes before, between and after its pieces.
struct Guarded {
  Guarded(size_t bytes, size_t piece) {
    size_t count = (bytes + piece - 1) / piece;
    memory.assign(bytes + (count + 1) * kGuard, std::byte(0xAB));
    for (size_t at = kGuard, left = bytes; left > 0;) {
      size_t step = std::min(left, piece);
      pieces.push_back({memory.data() + at, step});
      at += step + kGuard, left -= step;
    }
  }
  ByteVector content(size_t bytes) const {
    ByteVector out;
    for (auto& p : first_bytes(pieces, bytes)) out.insert(out.end(), p.begin(), p.end());
    return out;
  }
  // True: every byte outside the first `bytes` of the pieces is as it was.
  bool untouched_beyond(size_t bytes) const {
    auto inside = first_bytes(pieces, bytes);
    for (auto& b : memory) {
      bool in = std::any_of(inside.begin(), inside.end(), [&](auto& p) { return &b >= p.data() && &b < p.data() + p.size(); });
      if (!in && b != std::byte(0xAB)) return false;
    }
    return true;
  }
  static constexpr size_t kGuard = 64;
  ByteVector memory;
  memory::TargetPieces pieces;
};

class Transfer : public testing::TestWithParam<std::string> {
 protected:
  Transfer() {
    node.attach(world, address(), NodeId(7), NodeEpoch(1));
    owner = GetParam() == "tcp" ? tcp_owner({address(), NodeId(7), NodeEpoch(1)}, world, metrics)
                                : shm_owner({address(), NodeId(7), NodeEpoch(1)}, world, metrics);
  }
  std::string address() const { return GetParam() == "tcp" ? "node:1" : "unix:/node"; }

  std::vector<ReadOutcome> read(std::vector<ReadItem> items, Duration limit = seconds(1)) {
    std::optional<std::vector<ReadOutcome>> result;
    auto deadline = world.now() + limit;
    owner->read(std::move(items), deadline, [&](auto outcomes) {
      EXPECT_FALSE(result) << "done ran twice";
      result = std::move(outcomes);
    });
    EXPECT_FALSE(result);
    world.run_until([&] { return result.has_value(); });
    EXPECT_TRUE(result);
    EXPECT_LE(world.now(), deadline);
    return result.value_or(std::vector<ReadOutcome>());
  }
  std::vector<WriteOutcome> write(std::vector<WriteItem> items, Duration limit = seconds(1)) {
    std::optional<std::vector<WriteOutcome>> result;
    auto deadline = world.now() + limit;
    owner->write(std::move(items), deadline, true, [&](auto outcomes) {
      EXPECT_FALSE(result) << "done ran twice";
      result = std::move(outcomes);
    });
    world.run_until([&] { return result.has_value(); });
    EXPECT_TRUE(result);
    EXPECT_LE(world.now(), deadline);
    return result.value_or(std::vector<WriteOutcome>());
  }
  WriteItem item(const std::string& text, const ByteVector& bytes, size_t piece = 10'000) {
    WriteItem made{.key = key(text), .key_text = text};
    for (size_t at = 0; at < bytes.size(); at += piece) made.source.push_back(ByteSpan(bytes).subspan(at, std::min(piece, bytes.size() - at)));
    return made;
  }
  double counted(const std::string& name, const std::string& more = "") {
    return metrics.values()["millpond_transfer_" + name + "{transport=\"" + GetParam() + "\"" + more + "}"];
  }

  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  std::shared_ptr<Owner> owner;
};
INSTANTIATE_TEST_SUITE_P(Ways, Transfer, testing::Values("tcp", "shm"), [](auto& info) { return info.param; });

TEST_P(Transfer, what_was_written_is_read_whatever_the_pieces) {
  Random random(1);
  std::vector<ByteVector> blocks;
  std::vector<WriteItem> writes;
  for (size_t length : {1ul, 100ul, 65'535ul, 65'536ul, 65'537ul, 300'000ul, 6'000'000ul}) blocks.push_back(some_bytes(length, length));
  for (auto& b : blocks) writes.push_back(item("k" + std::to_string(b.size()), b, 1 + random.below(100'000)));
  for (auto& outcome : write(writes)) EXPECT_EQ(outcome.code, Code::ok);
  for (auto& outcome : write(writes)) EXPECT_EQ(outcome.code, Code::exists);

  std::vector<Guarded> targets;
  std::vector<ReadItem> reads;
  for (auto& b : blocks) {
    targets.emplace_back(b.size() + random.below(50'000), 1 + random.below(100'000));
    reads.push_back({key("k" + std::to_string(b.size())), targets.back().pieces});
  }
  auto outcomes = read(reads);
  for (size_t i = 0; i < blocks.size(); ++i) {
    EXPECT_EQ(outcomes[i].code, Code::ok);
    EXPECT_EQ(outcomes[i].length, blocks[i].size());
    EXPECT_EQ(targets[i].content(blocks[i].size()), blocks[i]);
    EXPECT_TRUE(blocks[i].size() > 400'000 || targets[i].untouched_beyond(blocks[i].size()));
  }
  EXPECT_EQ(counted("blocks_total", ",direction=\"read\""), blocks.size());
  EXPECT_EQ(counted("blocks_total", ",direction=\"write\""), blocks.size());
  EXPECT_EQ(node.reserved, 0u);
}

TEST_P(Transfer, a_small_target_is_invalid_with_the_length_and_its_neighbours_still_land) {
  node.put(key("a"), some_bytes(100'000, 1));
  node.put(key("big"), some_bytes(900'000, 2));
  node.put(key("c"), some_bytes(70'000, 3));
  Guarded a(100'000, 999), big(899'999, 50'000), c(70'000, 70'000);
  auto outcomes = read({{key("a"), a.pieces}, {key("big"), big.pieces}, {key("nowhere"), {}}, {key("c"), c.pieces}});
  EXPECT_EQ(outcomes[0].code, Code::ok);
  EXPECT_EQ(outcomes[1].code, Code::invalid);
  EXPECT_EQ(outcomes[1].length, 900'000u);
  EXPECT_TRUE(big.untouched_beyond(0));
  EXPECT_EQ(outcomes[2].code, Code::miss);
  EXPECT_EQ(outcomes[3].code, Code::ok);
  EXPECT_EQ(c.content(70'000), node.blocks[key("c").id].bytes);
}

TEST_P(Transfer, a_flipped_bit_is_asked_for_once_more) {
  node.put(key("a"), some_bytes(200'000, 1));
  node.corrupt_reads = 1;
  Guarded a(200'000, 4096);
  EXPECT_EQ(read({{key("a"), a.pieces}})[0].code, Code::ok);
  EXPECT_EQ(a.content(200'000), node.blocks[key("a").id].bytes);
  EXPECT_EQ(counted("retries_total"), 1);
  EXPECT_EQ(counted("corrupt_total"), 0);
  EXPECT_EQ(node.rechecked, 0u);
}

TEST_P(Transfer, a_second_mismatch_is_corrupt_and_the_owner_is_asked_to_recheck) {
  node.put(key("a"), some_bytes(200'000, 1));
  node.put(key("b"), some_bytes(5'000, 1));
  node.blocks[key("b").id].bytes[17] ^= std::byte(4);   // bad at the owner
  Guarded a(200'000, 4096), b(5'000, 5'000);
  auto outcomes = read({{key("a"), a.pieces}, {key("b"), b.pieces}});
  EXPECT_EQ(outcomes[0].code, Code::ok);
  EXPECT_EQ(outcomes[1].code, Code::corrupt);
  world.run();
  EXPECT_EQ(node.rechecked, 1u);
  EXPECT_EQ(counted("corrupt_total"), 1);
}

TEST_P(Transfer, bytes_of_another_key_do_not_verify) {
  node.put(key("a"), some_bytes(5'000, 1));
  node.blocks[key("b").id] = node.blocks[key("a").id];   // a collision of ids, or an owner that mixes them up
  Guarded b(5'000, 5'000);
  EXPECT_EQ(read({{key("b"), b.pieces}})[0].code, Code::corrupt);
}

TEST_P(Transfer, duplicate_keys_in_one_read_each_land) {
  node.put(key("a"), some_bytes(80'000, 1));
  Guarded one(80'000, 1'000), two(90'000, 80'000);
  auto outcomes = read({{key("a"), one.pieces}, {key("a"), two.pieces}});
  EXPECT_EQ(outcomes[0].code, Code::ok);
  EXPECT_EQ(outcomes[1].code, Code::ok);
  EXPECT_EQ(one.content(80'000), two.content(80'000));
}

TEST_P(Transfer, what_did_not_fit_into_an_answer_is_asked_for_again) {
  std::vector<Guarded> targets;
  std::vector<ReadItem> reads;
  for (int i = 0; i < 5; ++i) node.put(key(std::to_string(i)), some_bytes(1'000, i)), targets.emplace_back(1'000, 1'000);
  for (int i = 0; i < 5; ++i) reads.push_back({key(std::to_string(i)), targets[i].pieces});
  node.answer_max = 2;
  for (auto& outcome : read(reads)) EXPECT_EQ(outcome.code, Code::ok);
  node.answer_max = 0;
  for (auto& outcome : read(reads)) EXPECT_EQ(outcome.code, Code::unavailable);
}

TEST_P(Transfer, silence_ends_at_the_deadline_and_nothing_is_written_after_it) {
  node.put(key("a"), some_bytes(80'000, 1));
  node.delay = seconds(3);
  Guarded a(80'000, 80'000);
  EXPECT_EQ(read({{key("a"), a.pieces}}, milliseconds(20))[0].code, Code::timed_out);
  world.run();
  EXPECT_TRUE(a.untouched_beyond(0));
  auto bytes = some_bytes(1'000, 2);
  EXPECT_EQ(write({item("w", bytes)}, milliseconds(20))[0].code, Code::timed_out);
  world.run();
  EXPECT_EQ(node.reserved, 0u) << "what was reserved too late must be given back";
}

TEST_P(Transfer, a_dead_node_is_unavailable) {
  world.peer(address()).down = true;
  Guarded a(1'000, 1'000);
  EXPECT_EQ(read({{key("a"), a.pieces}})[0].code, Code::unavailable);
  auto bytes = some_bytes(1'000, 2);
  EXPECT_EQ(write({item("w", bytes)})[0].code, Code::unavailable);
}

TEST_P(Transfer, another_node_at_that_address_is_unavailable) {
  world.peer(address()).node_epoch = NodeEpoch(2);
  Guarded a(1'000, 1'000);
  EXPECT_EQ(read({{key("a"), a.pieces}})[0].code, Code::unavailable);
}

TEST_P(Transfer, an_owner_destroyed_under_a_call_ends_it) {
  node.delay = seconds(3);
  std::optional<Code> read_code, write_code;
  Guarded a(1'000, 1'000);
  auto bytes = some_bytes(1'000, 2);
  owner->read({{key("a"), a.pieces}}, world.now() + seconds(10), [&](auto outcomes) { read_code = outcomes[0].code; });
  owner->write({item("w", bytes)}, world.now() + seconds(10), true, [&](auto outcomes) { write_code = outcomes[0].code; });
  auto start = world.now();
  auto timer = world.after(milliseconds(1), [&] { owner.reset(); });
  world.run_until([&] { return read_code && write_code; });
  EXPECT_LT(world.now(), start + milliseconds(10));
  EXPECT_EQ(read_code, Code::unavailable);
  EXPECT_EQ(write_code, Code::unavailable);
}

TEST_P(Transfer, a_code_that_nobody_knows_is_internal) {
  auto serve = world.peer(address()).serve;
  world.peer(address()).serve = [serve](wire::Kind kind, const ByteVector& body, const ByteVector& payload) -> std::optional<FakeReply> {
    if (kind != wire::Kind::store && kind != wire::Kind::commit) return serve(kind, body, payload);
    wire::Builder builder;
    auto codes = builder.CreateVector(std::vector<uint8_t>{99});
    if (kind == wire::Kind::store) return FakeReply{.kind = wire::Kind::store_reply, .body = wire::finish(builder, wire::CreateStoreReply(builder, codes))};
    return FakeReply{.kind = wire::Kind::commit_reply, .body = wire::finish(builder, wire::CreateCommitReply(builder, codes))};
  };
  auto bytes = some_bytes(1'000, 2);
  EXPECT_EQ(write({item("a", bytes)})[0].code, Code::internal);
}

TEST_P(Transfer, bad_writes_are_invalid_each_for_itself) {
  auto bytes = some_bytes(100, 1);
  auto no_pieces = item("a", {}), empty_key = item("", bytes), long_key = item(std::string(5'000, 'x'), bytes);
  auto outcomes = write({no_pieces, empty_key, item("good", bytes), long_key});
  EXPECT_EQ(outcomes[0].code, Code::invalid);
  EXPECT_EQ(outcomes[1].code, Code::invalid);
  EXPECT_EQ(outcomes[2].code, Code::ok);
  EXPECT_EQ(outcomes[3].code, Code::invalid);
  EXPECT_EQ(write({no_pieces})[0].code, Code::invalid);
  EXPECT_TRUE(write({}).empty());
  EXPECT_TRUE(read({}).empty());
}

TEST_P(Transfer, full_and_stale_say_so) {
  auto bytes = some_bytes(100, 1);
  node.full = true;
  EXPECT_EQ(write({item("a", bytes)})[0].code, Code::no_space);
  node.generation = 5;
  auto outcome = write({item("a", bytes)})[0];
  EXPECT_EQ(outcome.code, Code::stale);
  EXPECT_EQ(outcome.namespace_generation, 5u);
}

TEST_P(Transfer, many_blocks_travel_in_bounded_batches) {
  std::vector<ByteVector> blocks;
  std::vector<WriteItem> writes;
  for (int i = 0; i < 40; ++i) blocks.push_back(some_bytes(1 << 20, i));
  for (int i = 0; i < 40; ++i) writes.push_back(item("k" + std::to_string(i), blocks[i], 64 << 10));
  for (auto& outcome : write(writes)) EXPECT_EQ(outcome.code, Code::ok);
  std::vector<Guarded> targets;
  std::vector<ReadItem> reads;
  for (int i = 0; i < 40; ++i) targets.emplace_back(1 << 20, 64 << 10);
  for (int i = 0; i < 40; ++i) reads.push_back({key("k" + std::to_string(i)), targets[i].pieces});
  auto outcomes = read(reads);
  for (int i = 0; i < 40; ++i) {
    EXPECT_EQ(outcomes[i].code, Code::ok);
    EXPECT_EQ(targets[i].content(1 << 20), blocks[i]);
  }
  EXPECT_EQ(world.peer(address()).calls[wire::Kind::read], 2);   // 32 MiB + 8 MiB
}

TEST(TcpWrite, a_bit_flipped_on_the_way_is_sent_once_more) {
  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  node.attach(world, "n");
  auto owner = tcp_owner({"n"}, world, metrics);
  auto bytes = some_bytes(100'000, 1);
  std::optional<Code> code;
  WriteItem item{.key = key("a"), .key_text = "a", .source = {ByteSpan(bytes)}};
  for (int faults : {1, 2}) {
    node.corrupt_stores = faults, node.blocks.clear(), code.reset();
    owner->write({item}, world.now() + seconds(1), true, [&](auto outcomes) { code = outcomes[0].code; });
    world.run_until([&] { return code.has_value(); });
    EXPECT_EQ(code, faults == 1 ? Code::ok : Code::corrupt);
  }
}

TEST(ShmPlaces, outside_the_mapping_are_never_followed) {
  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  node.attach(world, "unix:/n");
  auto owner = shm_owner({"unix:/n"}, world, metrics);
  auto bytes = some_bytes(200'000, 1);
  node.put(key("a"), bytes);
  for (int64_t shift : {1024ll, 0x7fffffffll, -1ll}) {
    node.page_shift = shift;
    std::optional<Code> read_code, write_code;
    Guarded a(200'000, 200'000);
    owner->read({{key("a"), a.pieces}}, world.now() + seconds(1), [&](auto outcomes) { read_code = outcomes[0].code; });
    WriteItem item{.key = key("w" + std::to_string(shift)), .key_text = "w", .source = {ByteSpan(bytes)}};
    owner->write({item}, world.now() + seconds(1), true, [&](auto outcomes) { write_code = outcomes[0].code; });
    world.run();
    EXPECT_NE(read_code, Code::ok);
    EXPECT_EQ(node.reserved, 0u);
    EXPECT_TRUE(shift < 0 || write_code == Code::unavailable);
  }
}

TEST(ShmPlaces, a_page_reused_under_the_copy_is_a_miss_not_wrong_bytes) {
  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  node.attach(world, "unix:/n");
  auto owner = shm_owner({"unix:/n"}, world, metrics);
  node.put(key("a"), some_bytes(200'000, 1));
  // The block is evicted, its pages rewritten, between the answer and the copy: the answer's sums no longer fit.
  node.before_answer = [&](wire::Kind) { node.blocks.clear(); };
  node.corrupt_reads = 1;
  std::optional<Code> code;
  Guarded a(200'000, 200'000);
  owner->read({{key("a"), a.pieces}}, world.now() + seconds(1), [&](auto outcomes) { code = outcomes[0].code; });
  world.run();
  EXPECT_EQ(code, Code::miss);
}

TEST(ShmWrite, a_reserve_that_is_never_answered_ends_the_connection) {
  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  node.attach(world, "unix:/n");
  node.silent = [](wire::Kind kind) { return kind == wire::Kind::reserve; };
  auto owner = shm_owner({"unix:/n"}, world, metrics);
  auto bytes = some_bytes(100, 1);
  std::optional<Code> code;
  owner->write({{.key = key("a"), .key_text = "a", .source = {ByteSpan(bytes)}}}, world.now() + milliseconds(5), true,
               [&](auto outcomes) { code = outcomes[0].code; });
  world.run_until([&] { return code.has_value(); });
  EXPECT_EQ(code, Code::timed_out);
  world.run();
  EXPECT_EQ(world.peer("unix:/n").channels, 2);
}

TEST(ShmWrite, what_had_no_room_beside_the_others_goes_after_them) {
  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  node.attach(world, "unix:/n");
  node.room = 50 << 20;                  // less than a batch and a half
  auto owner = shm_owner({"unix:/n"}, world, metrics);
  auto bytes = some_bytes(1 << 20, 1), large = some_bytes(51 << 20, 2);
  std::vector<WriteItem> items;
  for (int i = 0; i < 150; ++i) items.push_back({.key = key(std::to_string(i)), .key_text = std::to_string(i), .source = {ByteSpan(bytes)}});
  items.insert(items.begin() + 70, {.key = key("large"), .key_text = "large", .source = {ByteSpan(large)}});
  std::optional<std::vector<WriteOutcome>> result;
  owner->write(items, world.now() + seconds(1), true, [&](auto outcomes) { result = std::move(outcomes); });
  world.run_until([&] { return result.has_value(); });
  ASSERT_TRUE(result);
  for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ((*result)[i].code, i == 70 ? Code::overloaded : Code::ok) << i;
  EXPECT_EQ(node.reserved, 0u);
  EXPECT_LE(world.peer("unix:/n").calls[wire::Kind::reserve], 20);
}

TEST(ShmWrite, an_owner_destroyed_under_a_copy_does_not_make_it_ok) {
  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  node.attach(world, "unix:/n");
  auto owner = shm_owner({"unix:/n"}, world, metrics);
  auto bytes = some_bytes(12'000'000, 1);   // three slices
  std::shared_ptr<void> timer;
  node.before_answer = [&](wire::Kind kind) {   // after the answer to the reserve, and before the second slice
    if (kind == wire::Kind::reserve) timer = world.after(node.delay, [&] { world.post([&] { owner.reset(); }); });
  };
  std::optional<Code> code;
  owner->write({{.key = key("a"), .key_text = "a", .source = {ByteSpan(bytes)}}}, world.now() + seconds(1), true,
               [&](auto outcomes) { code = outcomes[0].code; });
  world.run_until([&] { return code.has_value(); });
  EXPECT_EQ(code, Code::unavailable);
  EXPECT_EQ(world.peer("unix:/n").calls[wire::Kind::reserve], 1);
  EXPECT_FALSE(node.blocks.contains(key("a").id));
}

TEST(ShmWrite, nothing_is_copied_into_pages_whose_connection_was_hung_up) {
  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  node.attach(world, "unix:/n");
  auto serve = world.peer("unix:/n").serve;
  int reserves = 0;
  world.peer("unix:/n").serve = [&](wire::Kind kind, const ByteVector& body, const ByteVector& payload) {
    auto reply = serve(kind, body, payload);
    if (kind == wire::Kind::reserve && ++reserves == 2) reply->kind = wire::Kind::read_reply;   // cannot be: the writer hangs up
    return reply;
  };
  auto owner = shm_owner({"unix:/n"}, world, metrics);
  auto large = some_bytes(12'000'000, 1), small = some_bytes(100, 2);
  std::optional<Code> large_code, small_code;
  auto write = [&](const char* name, const ByteVector& bytes, std::optional<Code>& code) {
    owner->write({{.key = key(name), .key_text = name, .source = {ByteSpan(bytes)}}}, world.now() + seconds(1), true,
                 [&code](auto outcomes) { code = outcomes[0].code; });
  };
  write("large", large, large_code);
  write("small", small, small_code);
  world.run_until([&] { return large_code && small_code; });
  EXPECT_EQ(small_code, Code::unavailable);
  EXPECT_EQ(large_code, Code::unavailable);
  EXPECT_EQ(world.peer("unix:/n").calls[wire::Kind::commit], 0);
}

TEST(Connect, shared_memory_that_fails_falls_back_to_tcp_and_is_tried_again) {
  FakeWorld world;
  FakeNode node;
  Metrics metrics;
  node.attach(world, "h:1", NodeId(7), NodeEpoch(1));
  node.attach(world, "unix:/n", NodeId(7), NodeEpoch(1));
  world.peer("unix:/n").down = true;
  node.put(key("a"), some_bytes(1'000, 1));
  auto owner = connect({NodeId(7), NodeEpoch(1), "h:1", "/n", this_host_id()}, {}, nullptr, world, metrics);
  EXPECT_STREQ(owner->transport(), "shm");
  auto load = [&] {
    std::optional<Code> code;
    Guarded a(1'000, 1'000);
    owner->read({{key("a"), a.pieces}}, world.now() + seconds(1), [&](auto outcomes) { code = outcomes[0].code; });
    world.run_until([&] { return code.has_value(); });
    return code;
  };
  EXPECT_EQ(load(), Code::ok);
  EXPECT_STREQ(owner->transport(), "tcp");
  EXPECT_EQ(metrics.values()["millpond_transfer_fallbacks_total{from=\"shm\"}"], 1);
  world.peer("unix:/n").down = false;
  world.pass(kFallbackHeld);
  EXPECT_EQ(load(), Code::ok);
  EXPECT_STREQ(owner->transport(), "shm");
}

TEST(Connect, takes_the_best_allowed_way) {
  FakeWorld world;
  Metrics metrics;
  auto way = [&](const char* allowed, uint64_t host, const char* socket) {
    return std::string(connect({NodeId(1), NodeEpoch(1), "h:1", socket, host}, *parse_transports(allowed), nullptr, world, metrics)->transport());
  };
  auto here = this_host_id();
  EXPECT_NE(here, 0u);
  EXPECT_EQ(way("local,shm,tcp", here, "/s"), "shm");
  EXPECT_EQ(way("local,shm,tcp", here, ""), "tcp");
  EXPECT_EQ(way("local,shm,tcp", here + 1, "/s"), "tcp");
  EXPECT_EQ(way("local,shm,tcp", 0, "/s"), "tcp");
  EXPECT_EQ(way("tcp", here, "/s"), "tcp");
  EXPECT_EQ(way("local", here, "/s"), "none");
  auto local = connect({NodeId(1), NodeEpoch(1), "h:1", "", 0}, *parse_transports("tcp"), nullptr, world, metrics);
  EXPECT_EQ(connect({}, {}, local, world, metrics), local);
  EXPECT_NE(connect({NodeId(1), NodeEpoch(1), "h:1"}, *parse_transports("shm,tcp"), local, world, metrics), local);
}

TEST(Transports, an_unknown_word_is_named) {
  EXPECT_TRUE(parse_transports("local, shm ,tcp")->shm);
  EXPECT_FALSE(parse_transports("tcp")->shm);
  for (auto bad : {"rdma", "", "tcp,", "tcp;shm"}) {
    auto parsed = parse_transports(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code(), Code::invalid);
    EXPECT_NE(parsed.error().message().find("local, shm and tcp"), std::string::npos);
  }
  setenv("MILLPOND_TRANSPORTS", "nonsense", 1);
  EXPECT_TRUE(transports_from_environment().tcp);
  setenv("MILLPOND_TRANSPORTS", "tcp", 1);
  EXPECT_FALSE(transports_from_environment().shm);
  unsetenv("MILLPOND_TRANSPORTS");
}

TEST(ReadReply, hostile_fields_are_refused) {
  auto make = [](std::vector<wire::ReadBlock> blocks, size_t sums, size_t pages) {
    wire::Builder builder;
    return wire::finish(builder, wire::CreateReadReply(builder, wire::structs<wire::ReadBlock>(builder, blocks),
                                                       builder.CreateVector(std::vector<uint64_t>(sums)),
                                                       builder.CreateVector(std::vector<uint32_t>(pages))));
  };
  auto block = [](uint64_t length, uint32_t sum_first, uint32_t page_first, uint32_t page_count) {
    return wire::ReadBlock(0, 0, length, sum_first, page_first, page_count, 0, 0, 0, 0, 0);
  };
  auto refused = [](const ByteVector& body, size_t asked) { return !parse_read_reply(wire::Kind::read_reply, body, asked); };
  EXPECT_FALSE(refused(make({block(65'537, 0, 0, 2)}, 2, 2), 1));
  EXPECT_TRUE(refused(make({block(65'537, 0, 0, 2)}, 2, 2), 2));
  EXPECT_TRUE(refused(make({block(65'537, 0, 0, 2)}, 1, 2), 1));
  EXPECT_TRUE(refused(make({block(65'537, 0xffffffff, 0, 2)}, 2, 2), 1));
  EXPECT_TRUE(refused(make({block(65'537, 0, 1, 0xffffffff)}, 2, 2), 1));
  EXPECT_TRUE(refused(make({block(0, 0, 0, 0)}, 2, 2), 1));
  EXPECT_TRUE(refused(make({block(wire::kBlockBytesMax + 1, 0, 0, 0)}, 1 << 20, 2), 1));
  auto body = make({block(65'537, 0, 0, 2)}, 2, 2);
  EXPECT_FALSE(parse_read_reply(wire::Kind::store_reply, body, 1));
  for (size_t cut = 0; cut < body.size(); ++cut) (void)refused(ByteVector(body.begin(), body.begin() + cut), 1);
}

TEST(ReadReply, pages_are_bounded_by_the_arena) {
  ByteVector arena(4 * 1024);
  auto pieces = [&](std::vector<uint32_t> pages, uint64_t offset, uint64_t length, uint64_t page_bytes = 1024) {
    return pieces_of_pages(arena, page_bytes, pages, offset, length);
  };
  EXPECT_EQ(pieces({0, 1, 2, 3}, 0, 4096)->size(), 1u);       // neighbours are one run
  EXPECT_EQ(pieces({3, 1}, 0, 2000)->size(), 2u);
  EXPECT_EQ((*pieces({2}, 1000, 24))[0].data(), arena.data() + 2 * 1024 + 1000);
  EXPECT_FALSE(pieces({2}, 1000, 25));
  EXPECT_FALSE(pieces({2}, 1024, 1));
  EXPECT_FALSE(pieces({2, 3}, 5, 10));
  EXPECT_FALSE(pieces({4}, 0, 10));
  EXPECT_FALSE(pieces({0xffffffff}, 0, 10));
  EXPECT_FALSE(pieces({0}, 0, 1025));
  EXPECT_FALSE(pieces({}, 0, 1));
  EXPECT_FALSE(pieces({0}, 0, 1, 0));
  EXPECT_FALSE(pieces({0}, 0, 4097, 5000));
}

}  // namespace
}  // namespace millpond::transfer
