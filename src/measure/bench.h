// `millpond bench`: what a running cluster does, beside memcpy and a plain socket measured in the same run.
// Design: docs/design/measure.md.
#pragma once
#include <functional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "measure/rate.h"

namespace millpond {
struct PoolOptions;
}

namespace millpond::measure {

struct Options {
  std::vector<std::string> transports = {"shm", "tcp"};   // each measured alone; "local" brings memory of its own
  std::vector<Bytes> blocks = {KiB(64), MiB(2)};
  std::vector<size_t> concurrency = {1, 4};               // threads that call at once
  Bytes working_set = MiB(128);                           // stored per row, then loaded at random, then removed
  Duration time = std::chrono::seconds(1);                // of loads per row
};

struct Row {
  std::string what;          // "memcpy", "socket", or a transport
  Bytes block;
  size_t concurrency = 0;
  Rate store, load;          // memcpy and socket only load
  uint64_t failed = 0;       // calls that did not answer ok
  std::string failed_with;   // of the first of them: "no_space"
};

// Stores and loads random bytes under keys of a namespace of its own; every loaded block was verified by the pool.
// A cluster with less memory than the working set evicts other blocks for it.
// unavailable, refused: no cluster at pool.master. invalid: nothing to measure.
Result<std::vector<Row>> run(const Options& options, const PoolOptions& pool, const std::function<void(const Row&)>& progress);

std::string table_head();
std::string table_line(const Row& row);
std::string json(const std::vector<Row>& rows);   // {"rows": [{"what": …, "load_GBps": …, "load_p50_us": …}]}

}  // namespace millpond::measure
