#include "tier/dram_core.h"

namespace millpond::tier {
namespace {

constexpr const char* kTier = "tier=\"dram\"";

}  // namespace

DramMetrics::DramMetrics(Metrics& m)
    : hits(m.counter("millpond_tier_hits_total", "Reads that found their block.", kTier)),
      misses(m.counter("millpond_tier_misses_total", "Reads that did not.", kTier)),
      condemned_hits(m.counter("millpond_tier_condemned_hits_total", "Reads that found an evicted block before its memory was reused.", kTier)),
      stored_blocks(m.counter("millpond_tier_stored_blocks_total", "Blocks committed.", kTier)),
      stored_bytes(m.counter("millpond_tier_stored_bytes_total", "Bytes of blocks committed.", kTier)),
      evicted_blocks(m.counter("millpond_tier_evicted_blocks_total", "Blocks evicted to make room.", kTier)),
      evicted_bytes(m.counter("millpond_tier_evicted_bytes_total", "Bytes of blocks evicted to make room.", kTier)),
      no_space_protected(m.counter("millpond_tier_no_space_total", "Stores refused because nothing could leave.", "tier=\"dram\",reason=\"protected\"")),
      no_space_reserved(m.counter("millpond_tier_no_space_total", "Stores refused because nothing could leave.", "tier=\"dram\",reason=\"reserved\"")),
      no_space_parent(m.counter("millpond_tier_no_space_total", "Stores refused because nothing could leave.", "tier=\"dram\",reason=\"parent\"")),
      events_lost(m.counter("millpond_tier_events_lost_total", "Events dropped because nobody took them; the whole inventory follows.", kTier)),
      unprotected(m.counter("millpond_tier_unprotected_total", "Looked-up blocks that were beyond the protection's budget.", kTier)),
      recheck_ok(m.counter("millpond_tier_recheck_total", "Blocks hashed again after a reader's complaint.", "tier=\"dram\",result=\"ok\"")),
      recheck_corrupt(m.counter("millpond_tier_recheck_total", "Blocks hashed again after a reader's complaint.", "tier=\"dram\",result=\"corrupt\"")),
      recheck_miss(m.counter("millpond_tier_recheck_total", "Blocks hashed again after a reader's complaint.", "tier=\"dram\",result=\"miss\"")) {
  for (auto reason : {DropReason::none, DropReason::removed, DropReason::wiped, DropReason::corrupt, DropReason::refused, DropReason::replaced}) {
    drops_.push_back(&m.counter("millpond_tier_dropped_blocks_total", "Blocks that left for another reason than room.",
                                fmt::format("tier=\"dram\",reason=\"{}\"", name(reason))));
  }
}

}  // namespace millpond::tier
