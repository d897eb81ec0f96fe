// Goal: the checkers see what they are for. A checker that is never right about a wrong is no checker.
// Method: made-up stories, told to them as a cluster would: first without a fault, then with one.
#include "sim/checkers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "sim/content.h"
#include "wire/message.h"

namespace millpond::sim {
namespace {
using namespace std::chrono_literals;
using testing::HasSubstr;

struct Story {
  Story() : network(world, {}), checkers(world, network, "default", "default") {
    master = world.start_process(HostId(1));
    node = world.start_process(HostId(2));
    other_node = world.start_process(HostId(3));
  }
  BlockId id(const std::string& key) { return hash_key({}, key).id; }
  ByteVector content(const std::string& key, uint32_t version) {
    ByteVector bytes(content_length(key, version));
    fill_content(key, version, bytes);
    return bytes;
  }
  Checkers::StoreRef store(const std::string& key, uint32_t version = 0) {
    auto ref = checkers.store_starts(key, version);
    world.run_for(1ms);
    checkers.store_ends(ref, true, world.now(), node);
    world.run_for(1ms);
    return ref;
  }
  void pass(wire::Kind kind, bool arrived, bool reply, ProcessId source, ProcessId target, const ByteVector& body) {
    network.passing({.arrived = arrived, .source = source, .target = target, .connection = 1, .request_id = 1, .reply = reply, .kind = kind, .body = body});
    world.run_for(1ms);
  }
  // The master has removed `key`, and this node has applied it.
  void remove(const std::string& key, ProcessId at, uint64_t number = 7) {
    checkers.removal_starts(key);
    wire::Builder asked;
    auto ids = std::vector{id(key)};
    pass(wire::Kind::remove, true, false, ProcessId(9), master, wire::finish(asked, wire::CreateRemove(asked, 0, wire::ids(asked, std::span<const BlockId>(ids)))));
    wire::Builder answer;
    pass(wire::Kind::remove_reply, false, true, master, ProcessId(9), wire::finish(answer, wire::CreateRemoveReply(answer, 0, 0, 1, 0)));
    wire::Builder apply;
    std::vector records{wire::Removal(wire::id_of(id(key)), number, 0, uint8_t(wire::RemovalKind::block), 0, 0)};
    auto vector = wire::structs(apply, std::span<const wire::Removal>(records));
    pass(wire::Kind::apply_removals, true, false, master, at, wire::finish(apply, wire::CreateApplyRemovals(apply, 1, 0, vector)));
    wire::Builder applied;
    pass(wire::Kind::apply_removals_reply, false, true, at, master, wire::finish(applied, wire::CreateApplyRemovalsReply(applied, 0, number)));
  }
  void evict(const std::string& key) {
    wire::Builder builder;
    std::vector items{wire::Advert(wire::id_of(id(key)), 0, 0, uint8_t(wire::AdvertKind::evict), 0, 0)};
    auto vector = wire::structs(builder, std::span<const wire::Advert>(items));
    wire::AdvertiseBuilder advertise(builder);
    advertise.add_items(vector);
    pass(wire::Kind::advertise, false, false, node, master, wire::finish(builder, advertise.Finish()));
  }
  std::string seen() {
    std::string all;
    for (auto& line : checkers.violations()) all += line + "\n";
    return all;
  }

  World world{1};
  Network network;
  Checkers checkers;
  ProcessId master, node, other_node;
};

TEST(Content, is_known_by_all_its_bytes_and_by_its_length) {
  for (auto key : {"a", "b/1", "some longer key"}) {
    ByteVector bytes(content_length(key, 3));
    fill_content(key, 3, bytes);
    EXPECT_EQ(content_version(key, bytes), 3u);
    EXPECT_EQ(content_version("another", bytes), std::nullopt);
    for (size_t at : {size_t(0), size_t(9), bytes.size() / 2, bytes.size() - 1}) {
      auto wrong = bytes;
      wrong[at] ^= std::byte(1);
      EXPECT_EQ(content_version(key, wrong), std::nullopt) << at;
    }
    EXPECT_EQ(content_version(key, ByteSpan(bytes).first(bytes.size() - 1)), std::nullopt);
    if (bytes.size() < 65536) continue;
    std::swap_ranges(bytes.begin() + 16, bytes.begin() + 4096, bytes.begin() + 32768);
    EXPECT_EQ(content_version(key, bytes), std::nullopt) << "places exchanged";
  }
}

TEST(Checkers, bytes_that_nobody_stored_are_seen) {
  Story story;
  story.store("a", 1);
  story.checkers.loaded("a", story.content("a", 1), story.world.now(), story.node);
  EXPECT_EQ(story.seen(), "");
  story.checkers.loaded("a", story.content("a", 2), story.world.now(), story.node);
  EXPECT_THAT(story.seen(), HasSubstr("WRONG BYTES: a load of a answered version 2"));
  auto torn = story.content("a", 1);
  torn[torn.size() / 2] ^= std::byte(1);
  story.checkers.loaded("a", torn, story.world.now(), story.node);
  EXPECT_THAT(story.seen(), HasSubstr("that nobody stored under it"));
  story.checkers.loaded("b", story.content("a", 1), story.world.now(), story.node);
  EXPECT_THAT(story.seen(), HasSubstr("a load of b"));
}

TEST(Checkers, a_removed_block_that_is_served_or_found_again_is_seen) {
  Story story;
  story.store("a");
  Time before = story.world.now();
  story.remove("a", story.node);
  story.checkers.loaded("a", story.content("a", 0), before, story.node);                    // under way when it was removed
  story.checkers.loaded("a", story.content("a", 0), story.world.now(), story.other_node);   // has not heard
  story.checkers.found("a", content_length("a", 0), before, story.master, kWorldProcess);
  EXPECT_EQ(story.seen(), "");
  story.checkers.loaded("a", story.content("a", 0), story.world.now(), story.node);
  EXPECT_THAT(story.seen(), HasSubstr("REMOVED CAME BACK: a load of a"));
  story.checkers.found("a", content_length("a", 0), story.world.now(), story.master, kWorldProcess);
  EXPECT_THAT(story.seen(), HasSubstr("REMOVED CAME BACK: a lookup"));
}

TEST(Checkers, a_removed_block_that_was_stored_again_may_be_served) {
  Story story;
  story.store("a");
  story.remove("a", story.node);
  story.store("a");
  story.checkers.loaded("a", story.content("a", 0), story.world.now(), story.node);
  story.checkers.found("a", content_length("a", 0), story.world.now(), story.master, kWorldProcess);
  // The same removal, heard a second time, removes nothing.
  story.remove("b", story.node, 7);
  story.checkers.after_quiet({story.node}, {story.master, story.node}, [&](ProcessId, const BlockId& id) { return id == story.id("a"); });
  EXPECT_EQ(story.seen(), "");
}

TEST(Checkers, a_removed_block_that_stands_anywhere_after_quiet_is_seen) {
  Story story;
  story.store("a");
  story.remove("a", story.node);
  auto at_other = [&](ProcessId process, const BlockId& id) { return process == story.other_node && id == story.id("a"); };
  story.checkers.after_quiet({story.other_node}, {story.other_node}, at_other);   // nobody who knew lives
  EXPECT_EQ(story.seen(), "");
  story.checkers.after_quiet({story.node, story.other_node}, {story.node, story.other_node}, at_other);
  EXPECT_THAT(story.seen(), HasSubstr("REMOVED CAME BACK: a of generation 0 stands"));
}

TEST(Checkers, a_stored_block_that_is_gone_without_a_word_is_seen) {
  for (bool evicted : {true, false}) {
    Story story;
    story.store("a");
    if (evicted) story.evict("a");
    story.checkers.after_quiet({story.node}, {story.master, story.node}, [](ProcessId, const BlockId&) { return false; });
    if (evicted) {
      EXPECT_EQ(story.seen(), "");
    } else {
      EXPECT_THAT(story.seen(), HasSubstr("LOST: a was stored"));
    }
  }
}

TEST(Checkers, a_directory_that_differs_from_the_nodes_is_seen) {
  Story story;
  Checkers::Held a{story.id("a"), 1, 10, 100}, b{story.id("b"), 2, 20, 200};
  story.checkers.compare({a, b}, {b, a});
  EXPECT_EQ(story.seen(), "");
  story.checkers.compare({a}, {a, b});
  EXPECT_THAT(story.seen(), HasSubstr("stand at nodes and not in the directory"));
  auto other_root = b;
  other_root.root = 21;
  story.checkers.compare({a, other_root}, {a});
  EXPECT_THAT(story.seen(), HasSubstr("stand in the directory and not at the node"));
  EXPECT_EQ(story.checkers.violations().size(), 2u);
  story.checkers.compare({a, a}, {a});
  EXPECT_EQ(story.checkers.violations().size(), 3u) << "told twice";
}

}  // namespace
}  // namespace millpond::sim
