#include "replay/pool_cache.h"

#include <fmt/core.h>

#include "millpond/pool.h"

namespace millpond::replay {
namespace {

class PoolCache final : public EngineCache {
 public:
  PoolCache(std::unique_ptr<Pool> pool, std::chrono::milliseconds lookup_deadline)
      : pool_(std::move(pool)), lookup_deadline_(lookup_deadline) {}
  Lookup lookup(std::span<const std::string> keys) override { return pool_->lookup(keys, lookup_deadline_); }
  std::vector<LoadAnswer> load(const Lookup& found, std::span<const LoadBlock> blocks) override { return pool_->load(found, blocks); }
  std::vector<Outcome> store(std::span<const StoreBlock> blocks) override { return pool_->store(blocks); }

 private:
  std::unique_ptr<Pool> pool_;
  std::chrono::milliseconds lookup_deadline_;
};

}  // namespace

Result<std::unique_ptr<EngineCache>> open_pool_cache(const Options& options, uint32_t number) {
  auto masters = masters_of(options);
  PoolOptions pool;
  pool.master = masters.size() == 1 ? masters[0] : masters.at(number);
  pool.tenant = options.tenant;
  // A block's content depends on its length too: replays with other block sizes must not meet.
  pool.namespace_name = fmt::format("replay-{}", options.block_size.count);
  pool.transports = options.transports;
  pool.cluster_id = options.cluster_id;
  pool.cluster_key = options.cluster_key;
  pool.open_deadline = std::chrono::duration_cast<std::chrono::milliseconds>(options.open_deadline);
  try {
    auto deadline = std::chrono::duration_cast<std::chrono::milliseconds>(options.lookup_deadline);
    return std::make_unique<PoolCache>(Pool::open(std::move(pool)), deadline);
  } catch (const Error& failure) {
    return error(Status(Code(uint8_t(failure.outcome)), failure.message));
  }
}

}  // namespace millpond::replay
