#include "tier/settings.h"

namespace millpond::tier {

config::Section describe(DramTier::Options& o) {
  config::Section s("dram", "The memory in which a node keeps blocks.");
  s.add("memory", o.capacity, "Memory for blocks; headers and bookkeeping are included.", {MiB(1), Bytes{(2ull << 40) - 1}});
  s.add("page_size", o.page_size, "Unit of allocation, a power of two; a block takes whole pages, small objects share one.", {KiB(64), MiB(2)});
  s.add("hugepages", o.hugepages, "Use the system's huge pages when there are enough; a log line says what came of it.");
  s.add("condemned_fraction", o.condemned_fraction, "Share of the memory in which evicted blocks can still be loaded before it is reused.", {0, 0.5});
  s.add("protected_fraction", o.protected_fraction, "Share of the memory that blocks found by a lookup may keep from eviction.", {0, 0.9});
  s.add("protection", o.protection, "How long a looked-up block is kept from eviction.", {Duration(0), std::chrono::hours(1)});
  return s;
}

}  // namespace millpond::tier
