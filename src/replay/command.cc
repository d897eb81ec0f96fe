#include "replay/pool_cache.h"
#include "replay/replay.h"

namespace millpond::replay {

int run(const Options& options) { return run(options, open_pool_cache); }

}  // namespace millpond::replay
