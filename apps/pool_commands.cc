// put, get, locate, rm, stat, bench: the public API of the pool from a terminal.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/block_id.h"
#include "base/log.h"
#include "command_line.h"
#include "commands.h"
#include "key_text.h"
#include "stat_table.h"

namespace millpond::apps {
namespace {

using Milliseconds = std::chrono::milliseconds;

int exit_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::ok:
    case Outcome::exists: return kOk;
    case Outcome::invalid: return kUsage;
    case Outcome::unavailable:
    case Outcome::timed_out:
    case Outcome::refused: return kUnreachable;
    default: return kMiss;
  }
}

std::string meaning(Outcome outcome) {
  switch (outcome) {
    case Outcome::invalid: return "the value is larger than any node can hold";
    case Outcome::no_space: return "no node has room, and nothing could leave by the deadline: give nodes more memory, or remove something";
    case Outcome::timed_out: return "nobody answered by the deadline: is the cluster busy? --deadline 10s waits longer";
    case Outcome::unavailable: return "no node could be reached: does `millpond stat` show one?";
    case Outcome::refused: return "the cluster refused: see its log";
    case Outcome::corrupt: return "every copy failed verification and was reported";
    case Outcome::stale: return "the namespace was emptied meanwhile: try again";
    case Outcome::overloaded: return "a queue is full: try again later";
    default: return "see the log of the node";
  }
}

int complain(const std::string& what) { return fmt::print(stderr, "millpond: {}\n", what), kUsage; }
int failed(const std::string& key, Outcome outcome) {
  fmt::print(stderr, "millpond: {}: {}: {}\n", shown(key), name(outcome), meaning(outcome));
  return exit_of(outcome);
}

// Says which key is none; true: all are fine.
bool check_keys(const std::vector<std::string>& keys) {
  for (auto& key : keys)
    if (auto status = check_key(key); !status.ok()) return complain(fmt::format("{}: {}", shown(key), status.message())), false;
  return true;
}

// Runs `use` with an open pool; a cluster that is not there is told in words.
template <typename Use>
int with_pool(Options& options, Use use) {
  options.settle();
  // Engines take all ways when the variable is wrong; a person is told.
  if (const char* ways = std::getenv("MILLPOND_TRANSPORTS"); ways && options.pool.transports.empty()) options.pool.transports = ways;
  if (!std::getenv("MILLPOND_LOG")) log::set_level(log::Level::error);   // what matters to a command is its answer
  try {
    auto pool = Pool::open(options.pool);
    return use(*pool, std::chrono::ceil<Milliseconds>(options.pool_deadline));
  } catch (const Error& e) {
    fmt::print(stderr, "millpond: {}\n", e.message);
    return exit_of(e.outcome);
  }
}

constexpr uint64_t kValueMax = 2ull << 30;   // one block; read no further, whatever the file goes on to be

bool read_all(const std::string& path, std::string& bytes, std::string& wrong) {
  int fd = path == "-" ? STDIN_FILENO : open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char some[1 << 16];
  ssize_t count = fd < 0 ? -1 : 0;
  struct stat about = {};
  bool large = fd >= 0 && fstat(fd, &about) == 0 && S_ISREG(about.st_mode) && uint64_t(about.st_size) > kValueMax;
  while (fd >= 0 && !large && (count = read(fd, some, sizeof some)) > 0) {
    bytes.append(some, size_t(count));
    large = bytes.size() > kValueMax;
  }
  if (count < 0) wrong = fmt::format("cannot read {}: {}", path, std::strerror(errno));
  if (large) wrong = fmt::format("{} is larger than {}, the most of one value: store it in pieces", path, text(Bytes{kValueMax}));
  if (fd > STDIN_FILENO) close(fd);
  return wrong.empty();
}

bool write_all(const std::string& path, const ByteVector& bytes, std::string& wrong) {
  std::FILE* file = path.empty() || path == "-" ? stdout : std::fopen(path.c_str(), "wb");
  bool ok = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size() && std::fflush(file) == 0;
  if (!ok) wrong = fmt::format("cannot write {}: {}", path.empty() ? "stdout" : path, std::strerror(errno));
  if (file && file != stdout && std::fclose(file) != 0 && ok) ok = false, wrong = fmt::format("cannot write {}: {}", path, std::strerror(errno));
  return ok;
}

std::string places_json(const Found& found) {
  std::string out;
  for (auto& at : found.replicas)
    out += fmt::format("{}{{\"node\": {}, \"address\": {}, \"tier\": {}}}", out.empty() ? "" : ", ", quoted(at.node), quoted(at.address), quoted(at.tier));
  return "[" + out + "]";
}
std::string places_text(const Found& found) {
  std::string out;
  for (auto& at : found.replicas) out += fmt::format("{}{} ({}, {})", out.empty() ? "" : ", ", at.node, at.address, at.tier);
  return out;
}

}  // namespace

int run_put(Options& options, Words& words) {
  std::string value, wrong;
  const std::string& key = words.first[0];
  if (!check_keys(words.first)) return kUsage;
  if (!read_all(words.second[0], value, wrong)) return complain(wrong);
  if (value.empty()) return complain(fmt::format("{} is empty: there is nothing to store", words.second[0]));
  return with_pool(options, [&](Pool& pool, Milliseconds deadline) {
    StoreBlock block{.key = key, .pieces = {std::as_bytes(std::span(value))}};
    Outcome outcome = pool.store({&block, 1}, deadline)[0];
    if (outcome == Outcome::no_space || outcome == Outcome::invalid) {
      Bytes size{value.size()}, most{largest_node(pool.stat_json(deadline))};
      if (most.count > 0 && size.count >= most.count)
        return complain(fmt::format("{}: {} fit in no node: the largest has {}; store it in pieces, or start a node with more --memory", shown(key), text(size), text(most)));
      fmt::print(stderr, "millpond: {} bytes did not fit\n", value.size());
    }
    if (exit_of(outcome) != kOk) return failed(key, outcome);
    fmt::print("{} {}: {} bytes\n", outcome == Outcome::exists ? "was there before, unchanged:" : "stored", shown(key), value.size());
    return int(kOk);
  });
}

int run_get(Options& options, Words& words) {
  const std::string& key = words.first[0];
  if (!check_keys(words.first)) return kUsage;
  return with_pool(options, [&](Pool& pool, Milliseconds deadline) {
    auto found = pool.locate({&key, 1}, deadline);
    auto miss = [&] { return fmt::print(stderr, "millpond: {}: miss: {}\n", shown(key), pool.explain(key, deadline)), int(kMiss); };
    if (found.empty() || found[0].length == 0) return miss();
    ByteVector bytes(found[0].length);
    LoadBlock block{.key = key, .pieces = {bytes}};
    LoadAnswer answer = pool.load({&block, 1}, deadline)[0];
    // To whoever asked, a holder that cannot be reached is a miss like any other: compute it.
    if (answer.outcome == Outcome::invalid) return failed(key, answer.outcome);
    if (answer.outcome != Outcome::ok) {
      if (answer.outcome == Outcome::miss) return miss();
      fmt::print(stderr, "millpond: {}: miss: {} ({})\n", shown(key), name(answer.outcome), meaning(answer.outcome));
      return int(kMiss);
    }
    bytes.resize(answer.length);
    std::string wrong;
    return write_all(words.output, bytes, wrong) ? int(kOk) : complain(wrong);
  });
}

int run_locate(Options& options, Words& words) {
  if (!check_keys(words.first)) return kUsage;
  return with_pool(options, [&](Pool& pool, Milliseconds deadline) {
    auto found = pool.locate(words.first, deadline);
    found.resize(words.first.size());
    int exit = kOk;
    for (size_t i = 0; i < found.size(); ++i) {
      bool miss = found[i].length == 0;
      if (miss) exit = kMiss;
      std::string why = miss ? pool.explain(words.first[i], deadline) : "";
      if (words.json)
        fmt::print("{{\"key\": {}, \"length\": {}, \"replicas\": {}{}}}\n", quoted(words.first[i]), found[i].length, places_json(found[i]),
                   miss ? ", \"why\": " + quoted(why) : "");
      else fmt::print("{}  {}\n", shown(words.first[i]), miss ? "miss: " + why : fmt::format("{}  {}", text(Bytes{found[i].length}), places_text(found[i])));
    }
    return exit;
  });
}

int run_remove(Options& options, Words& words) {
  if (words.all == !words.first.empty()) return complain("rm: name keys, or --all for everything of the namespace, not both");
  if (!check_keys(words.first)) return kUsage;
  return with_pool(options, [&](Pool& pool, Milliseconds deadline) {
    if (words.all) {
      Outcome outcome = pool.remove_all(deadline);
      if (outcome != Outcome::ok) return failed("rm --all", outcome);
      fmt::print("removed everything of {}/{}\n", options.pool.tenant, options.pool.namespace_name);
      return int(kOk);
    }
    size_t removed = pool.remove(words.first, deadline);
    fmt::print("removed {} of {}\n", removed, words.first.size());
    return int(removed ? kOk : kMiss);
  });
}

int run_stat(Options& options, Words& words) {
  return with_pool(options, [&](Pool& pool, Milliseconds deadline) {
    std::string json = pool.stat_json(deadline);
    if (json.starts_with("{\"error\":")) return fmt::print(stderr, "millpond: the master went away: {}\n", json), int(kUnreachable);
    if (words.json) return fmt::print("{}\n", json), int(kOk);
    auto table = stat_table(json);
    if (!table) return fmt::print(stderr, "millpond: {}\n", table.error().message()), int(kUnreachable);
    fmt::print("{}", *table);
    return int(kOk);
  });
}

int run_bench(Options& options, Words& words) {
  options.settle();
  if (!words.json) fmt::print("{}\n", measure::table_head());
  auto rows = measure::run(options.bench, options.pool, [&](const measure::Row& row) {
    if (!words.json) fmt::print("{}\n", measure::table_line(row)), std::fflush(stdout);
  });
  if (!rows) return fmt::print(stderr, "millpond: {}\n", rows.error().message()), exit_of(Outcome(rows.error().code()));
  if (words.json) fmt::print("{}", measure::json(*rows));
  return kOk;
}

}  // namespace millpond::apps
