// What one transport did, in a daemon's or engine's metrics.
#pragma once
#include <string>

#include "base/metrics.h"

namespace millpond::transfer {

struct Counters {
  Counters(Metrics& metrics, const char* transport)
      : Counters(metrics, std::string("transport=\"") + transport + "\"") {}

  Counter& bytes_read;
  Counter& bytes_written;
  Counter& blocks_read;
  Counter& blocks_written;
  Counter& corrupt;                      // blocks that did not verify twice
  Counter& retries;                      // blocks asked for once more
  Counter& bad_replies;                  // answers that cannot be
  Counter& late;                         // blocks given up because the deadline passed
  Counter& reservations_aborted;
  Counter& recheck_good;                 // the owner's copy was good: wire or reader fault
  Counter& recheck_bad;                  // the owner dropped its copy

 private:
  Counters(Metrics& m, const std::string& t)
      : bytes_read(m.counter("millpond_transfer_bytes_total", "Bytes moved and verified.", t + ",direction=\"read\"")),
        bytes_written(m.counter("millpond_transfer_bytes_total", "Bytes moved and verified.", t + ",direction=\"write\"")),
        blocks_read(m.counter("millpond_transfer_blocks_total", "Blocks moved and verified.", t + ",direction=\"read\"")),
        blocks_written(m.counter("millpond_transfer_blocks_total", "Blocks moved and verified.", t + ",direction=\"write\"")),
        corrupt(m.counter("millpond_transfer_corrupt_total", "Blocks that did not verify on two attempts.", t)),
        retries(m.counter("millpond_transfer_retries_total", "Blocks asked for once more because they did not verify.", t)),
        bad_replies(m.counter("millpond_transfer_bad_replies_total", "Answers of a node that cannot be.", t)),
        late(m.counter("millpond_transfer_late_total", "Blocks given up because the deadline passed.", t)),
        reservations_aborted(m.counter("millpond_transfer_reservations_aborted_total", "Reserved pages given back unused.", t)),
        recheck_good(m.counter("millpond_transfer_rechecks_total", "What owners found when a block did not verify here.", t + ",answer=\"good\"")),
        recheck_bad(m.counter("millpond_transfer_rechecks_total", "What owners found when a block did not verify here.", t + ",answer=\"bad\"")) {}
};

}  // namespace millpond::transfer
