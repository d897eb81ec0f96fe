#include "measure/bench.h"

#include <millpond/pool.h>

#include <algorithm>
#include <mutex>

#include "base/random.h"
#include "measure/baseline.h"

namespace millpond::measure {
namespace {

Code code_of(Outcome outcome) { return Code(outcome); }   // the values are the same (pool.h)

Result<std::unique_ptr<Pool>> open(PoolOptions options, const std::string& transport, Bytes working_set) {
  options.transports = transport;
  options.namespace_name = "millpond-bench";
  if (transport == "local") options.memory_bytes = 2 * working_set.count;
  try {
    return Pool::open(options);
  } catch (const Error& e) {
    return error(code_of(e.outcome), "{}", e.message);
  }
}

// Keeps the first failure of many threads.
class Failures {
 public:
  explicit Failures(Row& row) : row_(row) {}
  void add(Outcome outcome) {
    std::lock_guard lock(mutex_);
    if (row_.failed++ == 0) row_.failed_with = name(outcome);
  }

 private:
  std::mutex mutex_;
  Row& row_;
};

// Store the working set once, load from it for a while, take it away again.
Row measure_pool(Pool& pool, const Options& options, const std::string& transport, Bytes block, size_t workers, uint64_t run_id) {
  Row row{.what = transport, .block = block, .concurrency = workers};
  Failures failures(row);
  uint64_t per_worker = std::max<uint64_t>(1, options.working_set.count / workers / block.count);
  auto key = [&](size_t worker, uint64_t n) { return fmt::format("bench/{:x}/{}/{}/{}", run_id, block.count, worker, n); };
  std::vector<ByteVector> memory(workers, ByteVector(block.count));
  std::vector<Random> random;
  for (size_t i = 0; i < workers; ++i) {
    random.emplace_back(run_id + i);
    for (auto& b : memory[i]) b = std::byte(random[i].next());
  }

  row.store = measure(workers, std::chrono::minutes(1), [&](size_t worker, uint64_t round) -> uint64_t {
    if (round == per_worker) return kDone;
    StoreBlock item{.key = key(worker, round), .pieces = {memory[worker]}};
    Outcome outcome = pool.store({&item, 1})[0];
    if (outcome == Outcome::ok || outcome == Outcome::exists) return block.count;
    failures.add(outcome);
    return 0;
  });
  row.load = measure(workers, options.time, [&](size_t worker, uint64_t) -> uint64_t {
    LoadBlock item{.key = key(worker, random[worker].below(per_worker)), .pieces = {memory[worker]}};
    LoadAnswer answer = pool.load({&item, 1})[0];
    if (answer.outcome == Outcome::ok) return answer.length;
    failures.add(answer.outcome);
    return 0;
  });

  for (size_t worker = 0; worker < workers; ++worker) {
    std::vector<std::string> keys;
    for (uint64_t n = 0; n < per_worker; ++n) {
      keys.push_back(key(worker, n));
      if (keys.size() == 1000 || n + 1 == per_worker) pool.remove(keys, std::chrono::seconds(5)), keys.clear();
    }
  }
  return row;
}

std::string microseconds_text(Duration d) { return fmt::format("{:.0f}", double(d.count()) / 1000); }

}  // namespace

Result<std::vector<Row>> run(const Options& options, const PoolOptions& pool_options, const std::function<void(const Row&)>& progress) {
  if (options.transports.empty() || options.blocks.empty() || options.concurrency.empty())
    return error(Code::invalid, "bench: name at least one transport, one block size and one concurrency");
  std::vector<std::unique_ptr<Pool>> pools;   // all before the first figure: a cluster that is not there is told at once
  for (auto& transport : options.transports) {
    MP_TRY(auto pool, open(pool_options, transport, options.working_set));
    pools.push_back(std::move(pool));
  }
  uint64_t run_id = uint64_t(std::chrono::system_clock::now().time_since_epoch().count());   // keys that no earlier run used
  std::vector<Row> rows;
  auto add = [&](Row row) { progress(row), rows.push_back(std::move(row)); };
  for (Bytes block : options.blocks)
    for (size_t workers : options.concurrency) {
      add({.what = "memcpy", .block = block, .concurrency = workers, .load = copy_memory(block, workers, options.working_set, options.time)});
      MP_TRY(Rate socket, read_socket(block, workers, options.working_set, options.time));
      add({.what = "socket", .block = block, .concurrency = workers, .load = socket});
      for (size_t i = 0; i < pools.size(); ++i) add(measure_pool(*pools[i], options, options.transports[i], block, workers, run_id + rows.size()));
    }
  return rows;
}

std::string table_head() {
  return fmt::format("{:<8} {:>9} {:>7}  {:>10} {:>8} {:>8}  {:>10} {:>8} {:>8}  {}", "what", "block", "threads", "store GB/s", "p50 us", "p99 us", "load GB/s",
                     "p50 us", "p99 us", "not ok");
}

std::string table_line(const Row& row) {
  auto rate = [](const Rate& r) {
    if (!r.calls) return fmt::format("{:>10} {:>8} {:>8}", "-", "-", "-");
    return fmt::format("{:>10.2f} {:>8} {:>8}", r.gigabytes_per_second(), microseconds_text(r.p50), microseconds_text(r.p99));
  };
  return fmt::format("{:<8} {:>9} {:>7}  {}  {}  {}", row.what, text(row.block), row.concurrency, rate(row.store), rate(row.load),
                     row.failed ? fmt::format("{} ({})", row.failed, row.failed_with) : "0");
}

std::string json(const std::vector<Row>& rows) {
  auto rate = [](const char* what, const Rate& r) {
    return fmt::format("\"{0}_calls\": {1}, \"{0}_GBps\": {2:.4f}, \"{0}_p50_us\": {3:.1f}, \"{0}_p99_us\": {4:.1f}, \"{0}_max_us\": {5:.1f}", what, r.calls,
                       r.gigabytes_per_second(), double(r.p50.count()) / 1e3, double(r.p99.count()) / 1e3, double(r.worst.count()) / 1e3);
  };
  std::string out = "{\"rows\": [";
  for (auto& row : rows)
    out += fmt::format("{}\n  {{\"what\": \"{}\", \"block_bytes\": {}, \"concurrency\": {}, {}, {}, \"failed\": {}, \"failed_with\": \"{}\"}}", &row == &rows[0] ? "" : ",",
                       row.what, row.block.count, row.concurrency, rate("store", row.store), rate("load", row.load), row.failed, row.failed_with);
  return out + "\n]}\n";
}

}  // namespace millpond::measure
