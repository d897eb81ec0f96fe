// Goal: what the tier keeps for itself stays bounded whatever is stored. Method: the core alone, with what its owner
// never shows.
#include "tier/dram_core.h"

#include <gtest/gtest.h>

#include "tier/tier_test_support.h"

namespace millpond::tier {
namespace {

using namespace test;

Code store(DramCore& core, const Named& name, uint64_t length, Time now) {
  auto spec = spec_of(name, length);
  auto room = core.reserve(spec, now);
  if (!room) return room.error().code();
  std::vector<uint64_t> sums(chunk_count(length));
  ByteVector header(wire::block_header_bytes(sums.size(), room->pages.size(), name.key.size()));
  wire::encode_block_header({.id = spec.id, .parent = spec.parent, .length = length, .generation = room->generation, .page_offset = room->offset,
                             .sums = sums, .pages = room->pages, .key = name.key}, header);
  auto done = core.commit(room->slot, room->generation, header, 0, now);
  if (!done) core.abort(room->slot, room->generation);
  return done ? Code::ok : done.error().code();
}

// A working set a little larger than the memory: each block is stored again while its former copy is still condemned, so
// free pages never run out and nobody takes the oldest condemned.
TEST(DramCoreTest, BlocksStoredAgainLeaveNothingInTheCondemnedQueue) {
  Metrics metrics;
  DramTier::Options options{.capacity = MiB(8), .hugepages = false, .condemned_fraction = 0.2};
  auto arena = memory::Arena::create({.capacity = options.capacity, .page_size = options.page_size, .hugepages = false});
  ASSERT_TRUE(arena);
  auto layout = ArenaLayout::format(**arena, 1);
  ASSERT_TRUE(layout);
  DramCore core(options, std::move(*arena), *layout, make_leaf_lru(), metrics);
  for (int i = 0; i < 5000; ++i) {
    ASSERT_EQ(store(core, Named("block " + std::to_string(i % 110)), 64 << 10, at(i)), Code::ok) << i;
    ASSERT_LT(core.condemned_queued(), 200) << i;   // there are 128 pages
  }
  EXPECT_GT(metrics.values().at("millpond_tier_evicted_blocks_total{tier=\"dram\"}"), 1000);
}

}  // namespace
}  // namespace millpond::tier
