// Goal: peers read and store through messages; what does not fit is refused with what was wrong, costs nothing that was
// stored, and never ends the process; pages of a writer that is gone come back.
// Method: one node in virtual time, requests as a peer would send them, good and hostile.
#include "node/service.h"

#include "node/test_cluster.h"
#include "wire/limits.h"

namespace millpond::node {
namespace {

using std::chrono::seconds;

struct Item {
  std::string key, bytes;
  uint64_t salt_sums = 0;              // spoils the sums
};
struct Twist {                         // what a hostile or broken writer gets wrong
  int64_t length = 0, sum_count = 0, key_bytes = 0, sums = 0, keys = 0, payload = 0;
  bool zero_length = false;
  uint32_t generation = 0;
};
struct Reserved {
  Code code;
  uint64_t handle, generation;
  std::vector<uint32_t> pages;
  uint32_t offset;
};

struct Peer : testing::Test {
  Peer() : master(world, 1), node(world, 1), runtime(world, {.role = uint8_t(wire::Role::client)}) {
    node.joined();
    world.services["unix:/n1"] = world.services.at(node.node->address());
    tcp = runtime.channel({.address = node.node->address()});
    local = runtime.channel({.address = "unix:/n1"});
  }

  rpc::Message store(const std::vector<Item>& items, Twist twist = {}, bool reserve = false) {
    std::vector<wire::StoreItem> wires;
    std::vector<uint64_t> sums;
    std::string keys;
    auto payload = std::make_shared<std::string>();
    Namespace space = kSpace;
    space.generation = twist.generation;
    for (auto& item : items) {
      auto key = hash_key(space, item.key);
      auto sum = checksum(std::vector{as_bytes(item.bytes)}, key.seed);
      wires.emplace_back(wire::id_of(key.id), wire::Id(), sum.root, twist.zero_length ? 0 : item.bytes.size() + twist.length, uint16_t(item.key.size() + twist.key_bytes), 0,
                         uint32_t(sum.sums.size() + twist.sum_count));
      for (auto s : sum.sums) sums.push_back(s + item.salt_sums);
      keys += item.key;
      *payload += item.bytes;
    }
    sums.resize(sums.size() + twist.sums);
    keys.resize(keys.size() + twist.keys);
    payload->resize(payload->size() + twist.payload);
    wire::Builder b;
    auto items_vector = wire::structs(b, std::span<const wire::StoreItem>(wires));
    auto keys_vector = b.CreateVector(reinterpret_cast<const uint8_t*>(keys.data()), keys.size());
    if (reserve) return {.kind = wire::Kind::reserve, .body = wire::finish(b, wire::CreateReserve(b, twist.generation, items_vector, keys_vector))};
    auto sums_vector = b.CreateVector(sums);
    rpc::Message message{.kind = wire::Kind::store, .body = wire::finish(b, wire::CreateStore(b, twist.generation, items_vector, keys_vector, sums_vector, true))};
    if (!payload->empty()) message.payload = {as_bytes(*payload)};
    message.keep = payload;
    return message;
  }
  std::vector<Code> codes(const Result<rpc::Reply>& reply) {
    if (!reply) return {reply.error().code()};
    std::vector<Code> all;
    auto vector = reply->kind == wire::Kind::commit_reply ? (*wire::parse<wire::CommitReply>(reply->body))->codes() : (*wire::parse<wire::StoreReply>(reply->body))->codes();
    for (auto code : wire::span_of(vector)) all.push_back(Code(code));
    return all;
  }
  rpc::Message read(const std::vector<std::string>& keys, bool places) {
    std::vector<BlockId> ids;
    for (auto& key : keys) ids.push_back(hash_key(kSpace, key).id);
    wire::Builder b;
    auto vector = wire::ids(b, ids);
    return {.kind = wire::Kind::read, .body = wire::finish(b, wire::CreateRead(b, vector, places))};
  }
  std::vector<Reserved> reserve(rpc::Channel& channel, const std::vector<Item>& items, Twist twist = {}) {
    auto reply = ask(world, channel, store(items, twist, true));
    if (!reply) return {{reply.error().code(), 0, 0, {}, 0}};
    auto& answer = **wire::parse<wire::ReserveReply>(reply->body);
    std::vector<Reserved> all;
    auto pages = wire::span_of(answer.pages());
    for (auto& a : wire::span_of(answer.answers())) {
      auto mine = pages.subspan(a.page_first(), a.page_count());
      all.push_back({Code(a.code()), a.handle(), a.generation(), {mine.begin(), mine.end()}, a.page_offset()});
    }
    return all;
  }
  rpc::Message commit(const Reserved& r, const Item& item, bool abort = false, int64_t sums_more = 0) {
    auto sum = checksum(std::vector{as_bytes(item.bytes)}, hash_key(kSpace, item.key).seed);
    sum.sums.resize(sum.sums.size() + sums_more);
    if (abort) sum.sums.clear();
    std::vector<wire::CommitItem> items{{r.handle, r.generation, sum.root, uint32_t(sum.sums.size()), uint8_t(abort), 0, 0}};
    wire::Builder b;
    auto items_vector = wire::structs(b, std::span<const wire::CommitItem>(items));
    auto sums_vector = b.CreateVector(sum.sums);
    return {.kind = wire::Kind::commit, .body = wire::finish(b, wire::CreateCommit(b, items_vector, sums_vector, true))};
  }
  uint64_t reserved() { return node.node->state().dram.reserved.count; }
  void fill(const Reserved& r, const std::string& bytes) {
    auto& arena = node.node->dram().arena();
    for (size_t at = 0, page = 0; at < bytes.size(); ++page) {
      size_t step = std::min<size_t>(bytes.size() - at, arena.page_size().count - r.offset);
      std::memcpy(arena.page(memory::PageIndex(r.pages[page])) + r.offset, bytes.data() + at, step);
      at += step;
    }
  }

  World world;
  TestMaster master;
  TestNode node;
  TestRuntime runtime;
  std::shared_ptr<rpc::Channel> tcp, local;
};

TEST_F(Peer, StoresAndReadsOverTheWire) {
  Item a{"a", bytes_for("a", 200'000)}, b{"b", bytes_for("b", 10)};
  EXPECT_EQ(codes(ask(world, *tcp, store({a, b}))), (std::vector{Code::ok, Code::ok}));
  EXPECT_TRUE(master.directory[hash_key(kSpace, "a").id].contains(1)) << "visible before the answer";
  std::string landed;
  auto reply = ask(world, *tcp, read({"a", "none", "b"}, false), seconds(1), [&](wire::Kind, ByteSpan, uint64_t bytes) -> Result<rpc::Landing> {
    landed.resize(bytes);
    return rpc::Landing{.pieces = {{reinterpret_cast<std::byte*>(landed.data()), landed.size()}}};
  });
  ASSERT_TRUE(reply);
  auto& answer = **wire::parse<wire::ReadReply>(reply->body);
  auto blocks = wire::span_of(answer.blocks());
  ASSERT_EQ(blocks.size(), 3u);
  EXPECT_EQ(blocks[1].code(), uint8_t(Code::miss));
  EXPECT_EQ(landed, a.bytes + b.bytes);
  EXPECT_EQ(blocks[0].sum_first(), 0u);
  EXPECT_EQ(blocks[2].sum_first(), 4u);
  auto sums = wire::span_of(answer.sums());
  EXPECT_TRUE(verifies(std::vector{as_bytes(a.bytes)}, sums.subspan(0, 4), blocks[0].root(), hash_key(kSpace, "a").seed));
  EXPECT_EQ(node.metrics.values()["millpond_node_read_bytes_total{transport=\"tcp\"}"], 200'010);
}

TEST_F(Peer, WhatExistsIsDrainedBetweenTheOthers) {
  Item a{"a", bytes_for("a", 3'000'000)}, b{"b", bytes_for("b", 100'000)}, c{"c", bytes_for("c", 70'000)};
  EXPECT_EQ(codes(ask(world, *tcp, store({a}))), std::vector{Code::ok});
  EXPECT_EQ(codes(ask(world, *tcp, store({b, a, c}))), (std::vector{Code::ok, Code::exists, Code::ok}));
  for (auto& item : {a, b, c}) EXPECT_EQ(node.read(item.key), item.bytes);
  EXPECT_EQ(codes(ask(world, *tcp, store({{"d", "1"}, {"d", "1"}}))), (std::vector{Code::ok, Code::exists})) << "twice in one message";
}

TEST_F(Peer, BytesThatDoNotHaveTheWritersSumsAreNotKept) {
  EXPECT_EQ(codes(ask(world, *tcp, store({{"a", bytes_for("a", 100'000), 1}, {"b", "fine"}}))), (std::vector{Code::corrupt, Code::ok}));
  EXPECT_EQ(node.read("a"), "miss");
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(node.metrics.values()["millpond_node_corrupt_arrivals_total"], 1);
}

TEST_F(Peer, MismatchedStoresAreRefusedWhole) {
  Item a{"a", bytes_for("a", 100'000)};
  for (Twist twist : {Twist{.length = 1}, Twist{.length = -1}, Twist{.length = int64_t(wire::kBlockBytesMax)}, Twist{.sum_count = 1}, Twist{.sum_count = -1}, Twist{.key_bytes = 1},
                      Twist{.key_bytes = -1}, Twist{.key_bytes = 5000}, Twist{.sums = 1}, Twist{.sums = -1}, Twist{.keys = 1}, Twist{.keys = -1}, Twist{.payload = 1},
                      Twist{.payload = -1}, Twist{.payload = -100'000}, Twist{.zero_length = true}}) {
    auto reply = ask(world, *tcp, store({a}, twist));
    ASSERT_FALSE(reply);
    EXPECT_EQ(reply.error().code(), Code::invalid) << reply.error().text();
    EXPECT_FALSE(reply.error().message().empty());
  }
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(node.node->state().dram.blocks, 0u);
  EXPECT_EQ(codes(ask(world, *tcp, store({}))), std::vector<Code>{}) << "nothing to store is no fault";
  EXPECT_EQ(codes(ask(world, *tcp, store({a}))), std::vector{Code::ok}) << "and the node goes on";
}

TEST_F(Peer, HostileBytesAreNoMessage) {
  Random random(7);
  for (auto kind : {wire::Kind::read, wire::Kind::store, wire::Kind::reserve, wire::Kind::commit, wire::Kind::recheck, wire::Kind::stat, wire::Kind::lookup, wire::Kind::apply_removals, wire::Kind::touch}) {
    rpc::Message good = store({{"a", "bytes"}});
    for (int i = 0; i < 300; ++i) {
      rpc::Message bad{.kind = kind, .body = good.body};
      if (i % 3 == 0) bad.body.resize(random.below(200));
      for (uint64_t n = random.below(8); !bad.body.empty() && n > 0; --n) bad.body[random.below(bad.body.size())] = std::byte(random.next());
      if (i % 2) bad.payload = good.payload, bad.keep = good.keep;
      (void)ask(world, i % 5 ? *tcp : *local, std::move(bad));
    }
  }
  EXPECT_EQ(node.node->state().dram.blocks, table_of(node.node->dram()).size());
  EXPECT_EQ(node.write_now("z", "still here"), Code::ok);
  EXPECT_EQ(node.read("z"), "still here");
}

TEST_F(Peer, OnlyTheSameHostIsToldPlaces) {
  EXPECT_EQ(ask(world, *tcp, read({"a"}, true)).error().code(), Code::invalid);
  EXPECT_EQ(reserve(*tcp, {{"a", "x"}})[0].code, Code::invalid);
  EXPECT_EQ(ask(world, *tcp, {.kind = wire::Kind::lookup}).error().code(), Code::invalid);
}

TEST_F(Peer, AWriterOnThisHostFillsThePagesItself) {
  Item a{"a", bytes_for("a", 200'000)};
  auto r = reserve(*local, {a});
  ASSERT_EQ(r[0].code, Code::ok);
  fill(r[0], a.bytes);
  EXPECT_EQ(node.read("a"), "miss") << "not before the commit";
  EXPECT_EQ(codes(ask(world, *local, commit(r[0], a))), std::vector{Code::ok});
  EXPECT_EQ(node.read("a"), a.bytes);
  EXPECT_EQ(codes(ask(world, *local, commit(r[0], a))), std::vector{Code::stale}) << "once";
  auto reply = ask(world, *local, read({"a"}, true));
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->payload_bytes, 0u);
  EXPECT_EQ((*wire::parse<wire::ReadReply>(reply->body))->pages()->size(), 4u);
}

TEST_F(Peer, ACommitIsOfTheConnectionThatReserved) {
  Item a{"a", "bytes"};
  auto r = reserve(*local, {a});
  auto other = runtime.channel({.address = "unix:/n1"});
  EXPECT_EQ(codes(ask(world, *other, commit(r[0], a))), std::vector{Code::stale});
  EXPECT_EQ(codes(ask(world, *local, commit(r[0], a, false, 1))), std::vector{Code::invalid}) << "a sum too many";
  EXPECT_EQ(reserved(), 0u);
}

TEST_F(Peer, ReservationsReturnByAbortOrWithTheirConnection) {
  Item a{"a", bytes_for("a", 100'000)}, b{"b", bytes_for("b", 100'000)};
  auto r = reserve(*local, {a, b});
  ASSERT_EQ(r.size(), 2u);
  EXPECT_GT(reserved(), 0u);
  EXPECT_EQ(codes(ask(world, *local, commit(r[0], a, /*abort=*/true))), std::vector{Code::ok});
  EXPECT_GT(reserved(), 0u);
  world.run_for(seconds(1000));
  EXPECT_GT(reserved(), 0u) << "never by a timer: a stopped writer may wake up";
  local.reset();
  world.run_for(seconds(1));
  EXPECT_EQ(reserved(), 0u);
  EXPECT_EQ(node.metrics.values()["millpond_node_reservations_returned_total"], 1);
  EXPECT_EQ(codes(ask(world, *tcp, store({a, b}))), (std::vector{Code::ok, Code::ok})) << "the ids are free again";
}

TEST_F(Peer, OneWriterMayNotHoldTheArena) {
  std::vector<Item> items;
  for (int i = 0; i < 8; ++i) items.push_back({"k" + std::to_string(i), std::string(600'000, 'x')});
  auto r = reserve(*local, items);
  EXPECT_EQ(std::ranges::count(r, Code::ok, &Reserved::code), 3);   // 2 MiB of 8
  EXPECT_EQ(std::ranges::count(r, Code::overloaded, &Reserved::code), 5);
}

TEST_F(Peer, NoSpaceIsAnsweredWithinTheDeadline) {
  std::vector<std::shared_ptr<rpc::Channel>> writers;
  for (int i = 0; i < 6; ++i) {          // all of the arena is being written
    writers.push_back(runtime.channel({.address = "unix:/n1"}));
    for (int k = 0; k < 30; ++k) reserve(*writers.back(), {{"w" + std::to_string(i) + "-" + std::to_string(k), std::string(65536, 'x')}});
  }
  Time begun = world.now;
  EXPECT_EQ(codes(ask(world, *tcp, store({{"a", bytes_for("a", 3'000'000)}}))), std::vector{Code::no_space});
  EXPECT_LT(world.now - begun, seconds(1));
  EXPECT_EQ(node.write_now("b", bytes_for("b", 3'000'000)), Code::no_space);
}

TEST_F(Peer, AnOldGenerationIsToldTheNewOne) {
  node.write_now("x", "bytes", true, 5);
  auto reply = ask(world, *tcp, store({{"a", "bytes"}}, {.generation = 4}));
  EXPECT_EQ(codes(reply), std::vector{Code::stale});
  EXPECT_EQ((*wire::parse<wire::StoreReply>(reply->body))->generation(), 5u);
  EXPECT_EQ(codes(ask(world, *tcp, store({{"a", "bytes"}}, {.generation = 6}))), std::vector{Code::ok}) << "a later one is believed";
  EXPECT_EQ(node.read("x", 100, 5), "miss");
}

TEST_F(Peer, OnlyTheMasterRemovesAndOnlyOfTheLatestTerm) {
  wire::Builder b;
  auto body = wire::finish(b, wire::CreateApplyRemovals(b, 1, 0));
  EXPECT_EQ(ask(world, *tcp, {.kind = wire::Kind::apply_removals, .body = body}).error().code(), Code::invalid);
  auto from_master = master.runtime().channel({.address = node.node->address()});
  EXPECT_TRUE(ask(world, *from_master, {.kind = wire::Kind::apply_removals, .body = body}));
  wire::Builder old;
  EXPECT_EQ(ask(world, *from_master, {.kind = wire::Kind::touch, .body = wire::finish(old, wire::CreateTouch(old, 0))}).error().code(), Code::stale);
}

TEST_F(Peer, ATouchKeepsABlock) {
  node.write_now("keep", bytes_for("keep", 100'000));
  auto from_master = master.runtime().channel({.address = node.node->address()});
  std::vector<wire::TouchRun> runs{{wire::id_of(hash_key(kSpace, "keep").id), 1, 0}};
  wire::Builder b;
  auto vector = wire::structs(b, std::span<const wire::TouchRun>(runs));
  EXPECT_TRUE(ask(world, *from_master, {.kind = wire::Kind::touch, .body = wire::finish(b, wire::CreateTouch(b, 1, vector, true))}));
  for (int i = 0; i < 150; ++i) node.write_now("k" + std::to_string(i), bytes_for("k", 100'000), false);
  EXPECT_EQ(node.read("keep").size(), 100'000u);
}

TEST_F(Peer, RecheckTellsAGoodCopyFromABadOne) {
  node.write_now("good", bytes_for("good", 100'000));
  node.write_now("bad", bytes_for("bad", 100'000));
  auto view = node.node->dram().find(hash_key(kSpace, "bad").id, world.now, true);
  const_cast<std::byte&>(view->pieces[0][5]) ^= std::byte(1);   // a bit flips in memory
  EXPECT_EQ(node.read("bad"), "corrupt");
  node.write_now("bad", bytes_for("bad", 100'000));
  view = node.node->dram().find(hash_key(kSpace, "bad").id, world.now, true);
  const_cast<std::byte&>(view->pieces[0][5]) ^= std::byte(1);
  std::vector<BlockId> ids{hash_key(kSpace, "good").id, hash_key(kSpace, "bad").id, hash_key(kSpace, "none").id};
  wire::Builder b;
  auto vector = wire::ids(b, ids);
  auto reply = ask(world, *tcp, {.kind = wire::Kind::recheck, .body = wire::finish(b, wire::CreateRecheck(b, vector))});
  ASSERT_TRUE(reply);
  auto codes = wire::span_of((*wire::parse<wire::RecheckReply>(reply->body))->codes());
  EXPECT_EQ(std::vector<uint8_t>(codes.begin(), codes.end()), (std::vector<uint8_t>{uint8_t(Code::ok), uint8_t(Code::corrupt), uint8_t(Code::miss)}));
  EXPECT_EQ(node.read("bad"), "miss");
}

}  // namespace
}  // namespace millpond::node
