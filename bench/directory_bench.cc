// How fast the directory answers a 160-block prefix, beside a bare prefetched probe of the same table (what memory
// allows) and beside boost::unordered_flat_map (what it is instead of); and how many bytes a key costs.
// Argument: blocks in the directory. Prefixes are picked at random, so that nothing is in cache that would not be.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <boost/unordered/unordered_flat_map.hpp>
#include <memory>
#include <span>

#include "base/random.h"
#include "master/directory.h"

namespace millpond::master {
namespace {
constexpr size_t kPrefix = 160;

BlockId id_at(uint64_t n) {
  Random random(n);
  return {.high = random.next(), .low = random.next(), .namespace_id = 1};
}
size_t prefixes(size_t blocks) { return blocks / kPrefix; }
std::vector<BlockId> prefix(size_t which) {
  std::vector<BlockId> ids;
  for (size_t i = 0; i < kPrefix; ++i) ids.push_back(id_at(which * kPrefix + i));
  return ids;
}

// 1,024 prefixes picked at random, their ids made outside of the timed loop.
std::vector<std::vector<BlockId>> questions(size_t blocks) {
  Random random(7);
  std::vector<std::vector<BlockId>> all;
  for (int i = 0; i < 1024; ++i) all.push_back(prefix(random.below(prefixes(blocks))));
  return all;
}

// Four nodes; every eighth block has a second replica.
Directory& directory_of(size_t blocks) {
  static std::unique_ptr<Directory> kept;
  static size_t size = 0;
  if (size == blocks) return *kept;
  kept.reset();
  kept = std::make_unique<Directory>();
  for (uint16_t node = 0; node < 4; ++node) kept->set_standing(NodeIndex(node), Standing::alive), kept->begin_round(NodeIndex(node));
  std::vector<AdvertItem> items;
  AdvertOutcome outcome;
  for (size_t n = 0; n < blocks; ++n) {
    items.push_back({.id = id_at(n), .root = n, .length = 2 << 20});
    if (items.size() < 1024 && n + 1 < blocks) continue;
    NodeIndex node{uint16_t(n >> 10 & 3)};
    kept->advertise(node, items, {}, outcome);
    items.resize(items.size() / 8);
    kept->advertise(NodeIndex(uint16_t((node.value + 1) & 3)), items, {}, outcome);
    items.clear();
  }
  size = blocks;
  return *kept;
}

void report_keys(benchmark::State& state, size_t blocks, size_t bytes) {
  state.counters["keys/s"] = benchmark::Counter(double(state.iterations() * kPrefix), benchmark::Counter::kIsRate);
  state.counters["lookups/s"] = benchmark::Counter(double(state.iterations()), benchmark::Counter::kIsRate);
  state.counters["bytes/key"] = double(bytes) / double(blocks);
}

void lookup_prefix(benchmark::State& state) {
  size_t blocks = size_t(state.range(0));
  Directory& directory = directory_of(blocks);
  auto asked = questions(blocks);
  LookupAnswer answer;
  size_t i = 0;
  for (auto _ : state) {
    directory.lookup_prefix(asked[i++ & 1023], answer);
    if (answer.matched != kPrefix) return state.SkipWithError("a block is missing");
  }
  report_keys(state, blocks, directory.bytes());
}

struct Slot {                    // as large as the directory's
  BlockId id;
  uint64_t value[3] = {};
};

struct Shards {
  std::vector<FlatTable<Slot>> tables = std::vector<FlatTable<Slot>>(256);
  FlatTable<Slot>& of(uint64_t hash) { return tables[hash >> 8 & 255]; }
};

void bare_probe(benchmark::State& state) {
  size_t blocks = size_t(state.range(0));
  Shards shards;
  for (size_t n = 0; n < blocks; ++n) {
    BlockId id = id_at(n);
    uint64_t hash = table_hash(id);
    shards.of(hash).insert(id, hash).first->value[0] = n;
  }
  auto asked = questions(blocks);
  size_t i = 0;
  uint64_t hashes[kPrefix];
  for (auto _ : state) {
    auto& ids = asked[i++ & 1023];
    uint64_t sum = 0;
    for (size_t from = 0; from < kPrefix; from += 32) {
      for (size_t k = from; k < from + 32; ++k) {
        hashes[k] = table_hash(ids[k]);
        shards.of(hashes[k]).prefetch_tags(hashes[k]);
      }
      for (size_t k = from; k < from + 32; ++k) shards.of(hashes[k]).prefetch_slot(hashes[k]);
      for (size_t k = from; k < from + 32; ++k) sum += shards.of(hashes[k]).find(ids[k], hashes[k])->value[0];
    }
    benchmark::DoNotOptimize(sum);
  }
  size_t bytes = 0;
  for (auto& table : shards.tables) bytes += table.bytes();
  report_keys(state, blocks, bytes);
}

// Counts what a container takes, so that its slack is seen too.
size_t boost_bytes = 0;
template <typename T>
struct Counting {
  using value_type = T;
  Counting() = default;
  template <typename Other>
  Counting(const Counting<Other>&) {}
  T* allocate(size_t n) {
    boost_bytes += n * sizeof(T);
    return std::allocator<T>().allocate(n);
  }
  void deallocate(T* p, size_t n) {
    boost_bytes -= n * sizeof(T);
    std::allocator<T>().deallocate(p, n);
  }
  bool operator==(const Counting&) const { return true; }
  bool operator!=(const Counting&) const { return false; }
};

void boost_flat_map(benchmark::State& state) {
  using Value = std::array<uint64_t, 3>;
  using Map = boost::unordered_flat_map<BlockId, Value, BlockIdHash, std::equal_to<BlockId>, Counting<std::pair<const BlockId, Value>>>;
  size_t blocks = size_t(state.range(0));
  std::vector<Map> shards(256);
  for (size_t n = 0; n < blocks; ++n) {
    BlockId id = id_at(n);
    shards[id.high >> 56][id] = {n};
  }
  auto asked = questions(blocks);
  size_t i = 0;
  for (auto _ : state) {
    uint64_t sum = 0;
    for (auto& id : asked[i++ & 1023]) sum += shards[id.high >> 56].find(id)->second[0];
    benchmark::DoNotOptimize(sum);
  }
  report_keys(state, blocks, boost_bytes);
}

void advertise(benchmark::State& state) {
  size_t blocks = size_t(state.range(0));
  Directory& directory = directory_of(blocks);
  // A node that is full: each batch evicts as many blocks as it adds.
  std::vector<AdvertItem> items(1024);
  AdvertOutcome outcome;
  uint64_t next = 1ull << 40;
  for (size_t i = 0; i < 512; ++i) items[i] = {.id = id_at(next++), .root = 1, .length = 1};
  directory.advertise(NodeIndex(0), {items.data(), 512}, {}, outcome);
  for (auto _ : state) {
    state.PauseTiming();
    for (size_t i = 0; i < 512; ++i) {
      items[i + 512] = {.id = items[i].id, .kind = AdvertKind::evict};
      items[i] = {.id = id_at(next++), .root = 1, .length = 1};
    }
    state.ResumeTiming();
    directory.advertise(NodeIndex(0), items, {}, outcome);
  }
  for (size_t i = 0; i < 512; ++i) items[i].kind = AdvertKind::evict;
  directory.advertise(NodeIndex(0), {items.data(), 512}, {}, outcome);
  state.counters["items/s"] = benchmark::Counter(double(state.iterations() * 1024), benchmark::Counter::kIsRate);
}

void blocks_of(benchmark::internal::Benchmark* b) { b->Arg(1'000'000)->Arg(10'000'000)->Unit(benchmark::kMicrosecond); }
BENCHMARK(lookup_prefix)->Apply(blocks_of);
BENCHMARK(advertise)->Apply(blocks_of);
BENCHMARK(bare_probe)->Apply(blocks_of);
BENCHMARK(boost_flat_map)->Apply(blocks_of);

}  // namespace
}  // namespace millpond::master
BENCHMARK_MAIN();
