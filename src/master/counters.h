// What the master counts, by name.
#pragma once
#include <array>

#include "base/metrics.h"

namespace millpond::master {

struct Counters {
  explicit Counters(Metrics& m)
      : lookups(m.counter("millpond_master_lookups_total", "Lookups answered.")),
        keys(m.counter("millpond_master_lookup_keys_total", "Keys in lookups.")),
        hits(m.counter("millpond_master_lookup_hits_total", "Keys found by lookups.")),
        lookup_seconds(m.histogram("millpond_master_lookup_seconds", "From a lookup's arrival at the service to its answer.")),
        stale_batches(m.counter("millpond_master_advertise_stale_total", "Batches answered stale: the node joins again.")),
        repeated_batches(m.counter("millpond_master_advertise_repeated_total", "Batches that came again and got the same answer.")),
        removals(m.counter("millpond_master_removals_total", "Removals issued.")),
        unconfirmed(m.counter("millpond_master_removals_unconfirmed_total", "Nodes that had not confirmed a removal by its deadline.")),
        pushes_failed(m.counter("millpond_master_pushes_failed_total", "apply_removals calls to nodes that failed.")),
        touches(m.counter("millpond_master_touch_runs_total", "Runs that nodes were told to refresh.")),
        touches_dropped(m.counter("millpond_master_touch_runs_dropped_total", "Runs dropped because a node's queue was full.")),
        reports(m.counter("millpond_master_reports_total", "Reports of readers about nodes.")),
        invalid(m.counter("millpond_master_requests_invalid_total", "Requests that were wrong in themselves.")),
        owner_lost(m.counter("millpond_master_blocks_lost_total", "Blocks swept because no node that held them is left.")),
        blocks(m.gauge("millpond_master_directory_blocks", "Blocks in the directory.")),
        bytes(m.gauge("millpond_master_directory_bytes", "Memory of the directory.")),
        warming(m.gauge("millpond_master_warming", "1 while nodes still stream their inventories.")),
        term(m.gauge("millpond_master_term", "Term of this master.")) {
    constexpr const char* kAnswers[] = {"first", "replica", "refused", "removed", "noted"};
    for (size_t i = 0; i < answers.size(); ++i)
      answers[i] = &m.counter("millpond_master_advertise_items_total", "Items of node streams, by answer.", "answer=\"" + std::string(kAnswers[i]) + "\"");
    constexpr const char* kStandings[] = {"alive", "suspect", "dead"};
    for (size_t i = 0; i < nodes.size(); ++i)
      nodes[i] = &m.gauge("millpond_master_nodes", "Nodes, by state.", "state=\"" + std::string(kStandings[i]) + "\"");
  }

  Counter &lookups, &keys, &hits;
  Histogram& lookup_seconds;
  Counter &stale_batches, &repeated_batches, &removals, &unconfirmed, &pushes_failed, &touches, &touches_dropped, &reports, &invalid, &owner_lost;
  Gauge &blocks, &bytes, &warming, &term;
  std::array<Counter*, 5> answers{};
  std::array<Gauge*, 3> nodes{};
};

}  // namespace millpond::master
