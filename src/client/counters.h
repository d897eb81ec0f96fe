// What the clients of this process did.
#pragma once
#include <array>
#include <string>

#include "base/metrics.h"
#include "base/status.h"

namespace millpond::client {

struct Counters {
  explicit Counters(Metrics& m)
      : lookups(m.counter("millpond_client_lookups_total", "Lookups and locates.")),
        lookups_local(m.counter("millpond_client_lookups_local_total", "Lookups that the node in this process answered alone.")),
        lookups_failed(m.counter("millpond_client_lookups_failed_total", "Lookups that neither the master nor a node in this process answered.")),
        keys_asked(m.counter("millpond_client_keys_asked_total", "Keys of lookups.")),
        keys_found(m.counter("millpond_client_keys_found_total", "Keys of lookups that were found.")),
        bytes_loaded(m.counter("millpond_client_bytes_total", "Bytes of blocks.", "call=\"load\"")),
        bytes_stored(m.counter("millpond_client_bytes_total", "Bytes of blocks.", "call=\"store\"")),
        stale(m.counter("millpond_client_stale_total", "Calls that hashed their keys again under a later namespace generation.")),
        next_replica(m.counter("millpond_client_next_replica_total", "Blocks tried at another replica because one failed.")),
        next_node(m.counter("millpond_client_next_node_total", "Stores that went to another node because one was full or failed.")),
        breaker_opened(m.counter("millpond_client_breaker_opened_total", "Times that a node was put aside because it failed.")),
        master_away(m.counter("millpond_client_master_away_total", "Times that the master was put aside because it did not answer.")),
        lookup_seconds(m.histogram("millpond_client_lookup_seconds", "From call to answer of lookup and locate.")),
        load_seconds(m.histogram("millpond_client_load_seconds", "From call to answer of load.")),
        store_seconds(m.histogram("millpond_client_store_seconds", "From call to answer of store.")) {
    for (size_t code = 0; code < loaded.size(); ++code) {
      auto label = "outcome=\"" + std::string(name(Code(code))) + "\"";
      loaded[code] = &m.counter("millpond_client_loads_total", "Blocks of load, by outcome.", label);
      stored[code] = &m.counter("millpond_client_stores_total", "Blocks of store, by outcome.", label);
    }
  }
  void count_load(Code code) { loaded[std::min<size_t>(size_t(code), loaded.size() - 1)]->add(); }
  void count_store(Code code) { stored[std::min<size_t>(size_t(code), stored.size() - 1)]->add(); }

  Counter &lookups, &lookups_local, &lookups_failed, &keys_asked, &keys_found, &bytes_loaded, &bytes_stored, &stale,
      &next_replica, &next_node, &breaker_opened, &master_away;
  Histogram &lookup_seconds, &load_seconds, &store_seconds;
  std::array<Counter*, size_t(Code::internal) + 1> loaded{}, stored{};
};

}  // namespace millpond::client
