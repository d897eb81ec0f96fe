// What a node counts. Names: docs/design/node.md.
#pragma once
#include "base/metrics.h"

namespace millpond::node {

struct Counters {
  explicit Counters(Metrics& m)
      : read_blocks_shm(m.counter("millpond_node_reads_total", "Blocks served to readers.", "transport=\"shm\"")),
        read_blocks_tcp(m.counter("millpond_node_reads_total", "Blocks served to readers.", "transport=\"tcp\"")),
        read_blocks_local(m.counter("millpond_node_reads_total", "Blocks served to readers.", "transport=\"local\"")),
        read_bytes_shm(m.counter("millpond_node_read_bytes_total", "Bytes served to readers (shm: named to them).", "transport=\"shm\"")),
        read_bytes_tcp(m.counter("millpond_node_read_bytes_total", "Bytes served to readers (shm: named to them).", "transport=\"tcp\"")),
        read_bytes_local(m.counter("millpond_node_read_bytes_total", "Bytes served to readers (shm: named to them).", "transport=\"local\"")),
        read_misses(m.counter("millpond_node_read_misses_total", "Blocks asked for that were not here.")),
        store_bytes_shm(m.counter("millpond_node_store_bytes_total", "Bytes stored by writers.", "transport=\"shm\"")),
        store_bytes_tcp(m.counter("millpond_node_store_bytes_total", "Bytes stored by writers.", "transport=\"tcp\"")),
        store_bytes_local(m.counter("millpond_node_store_bytes_total", "Bytes stored by writers.", "transport=\"local\"")),
        store_no_space(m.counter("millpond_node_stores_refused_total", "Blocks that found no room.", "reason=\"no_space\"")),
        store_stale(m.counter("millpond_node_stores_refused_total", "Blocks of an older namespace generation.", "reason=\"stale\"")),
        corrupt_arrivals(m.counter("millpond_node_corrupt_arrivals_total", "Stored blocks whose bytes did not have the writer's sums on arrival.")),
        corrupt_reads(m.counter("millpond_node_corrupt_reads_total", "Local reads that did not verify twice.")),
        rechecks_corrupt(m.counter("millpond_node_rechecks_total", "Copies hashed again on a reader's report.", "result=\"corrupt\"")),
        rechecks_good(m.counter("millpond_node_rechecks_total", "Copies hashed again on a reader's report.", "result=\"good\"")),
        requests_bad(m.counter("millpond_node_requests_bad_total", "Requests refused as invalid or corrupt.")),
        reservations_returned(m.counter("millpond_node_reservations_returned_total", "Reservations given back because their writer's connection ended.")),
        joins(m.counter("millpond_node_joins_total", "Times this node joined a master.")),
        resyncs(m.counter("millpond_node_resyncs_total", "Joins because the stream had a gap, events were lost or the master said stale.")),
        batches_resent(m.counter("millpond_node_batches_resent_total", "Advertisements sent again after a missed deadline.")),
        advertise_refused(m.counter("millpond_node_copies_refused_total", "Copies dropped because other bytes were first under the key.")),
        advertise_removed(m.counter("millpond_node_copies_removed_total", "Copies dropped because of a removal this node had not seen.")),
        stores_pending(m.counter("millpond_node_stores_unadvertised_total", "Stores that ended before the master had answered.")),
        removals_applied(m.counter("millpond_node_removals_applied_total", "Removal records applied.")),
        removal_gaps(m.counter("millpond_node_removal_gaps_total", "Removals that began beyond the last one applied here.")) {}

  Counter &read_blocks_shm, &read_blocks_tcp, &read_blocks_local, &read_bytes_shm, &read_bytes_tcp, &read_bytes_local, &read_misses;
  Counter &store_bytes_shm, &store_bytes_tcp, &store_bytes_local, &store_no_space, &store_stale;
  Counter &corrupt_arrivals, &corrupt_reads, &rechecks_corrupt, &rechecks_good, &requests_bad, &reservations_returned;
  Counter &joins, &resyncs, &batches_resent, &advertise_refused, &advertise_removed, &stores_pending, &removals_applied, &removal_gaps;
};

}  // namespace millpond::node
