// The engine model's cache is a Millpond pool: the only file here that opens one.
#pragma once
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "replay/engine_cache.h"
#include "replay/options.h"

namespace millpond::replay {

// Engine `number`'s pool: its own master where the options name one per engine. Answers what Pool::open throws.
Result<std::unique_ptr<EngineCache>> open_pool_cache(const Options& options, uint32_t number);

}  // namespace millpond::replay
