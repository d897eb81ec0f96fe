// millpond_sim: clusters with faults, seed after seed. A seed that fails is a bug report: it is printed with the command
// that runs it again.
#include <csignal>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <unistd.h>

#include "base/reached.h"
#include "sim/seed.h"

namespace {
using namespace millpond;

uint64_t seed_now = 0;

// A failed check ends the process; say which seed it was.
extern "C" void say_seed(int signal) {
  char line[128];
  int length = std::snprintf(line, sizeof line, "millpond_sim: ended in seed %llu; again with: millpond_sim --seed %llu\n",
                             static_cast<unsigned long long>(seed_now), static_cast<unsigned long long>(seed_now));
  if (write(2, line, size_t(length)) < 0) _exit(3);
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

std::set<std::string> places_in_sources() {
  std::set<std::string> places;
  std::regex pattern("MP_REACHED\\(\"([^\"]+)\"\\)");
  for (auto* folder : {"src", "sim"})
    for (auto& entry : std::filesystem::recursive_directory_iterator(std::filesystem::path(MILLPOND_SOURCE_DIR) / folder)) {
      auto name = entry.path().filename().string();
      if (!entry.is_regular_file() || (!name.ends_with(".cc") && !name.ends_with(".h")) || name.ends_with("_test.cc") || name == "reached.h") continue;
      std::ifstream file(entry.path());
      std::string text((std::istreambuf_iterator<char>(file)), {});
      for (std::sregex_iterator found(text.begin(), text.end(), pattern), end; found != end; ++found) places.insert((*found)[1]);
    }
  return places;
}

void report() {
  auto reached = reached_places();
  fmt::print("\nRare paths visited:\n");
  for (auto& [place, count] : reached) fmt::print("  {:10}  {}\n", count, place);
  fmt::print("Rare paths that no seed reached:\n");
  for (auto& place : places_in_sources())
    if (!reached.contains(place)) fmt::print("              {}\n", place);
}
}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Clusters in one process: virtual time, seeded faults, checkers that are always on.", "millpond_sim");
  uint64_t seeds = 200, first = 1, one = 0, repeat = 20;
  double seconds_max = 0;
  std::string follow;
  bool with_report = false, verbose = false;
  app.add_option("--seeds", seeds, "How many seeds to run")->capture_default_str();
  app.add_option("--first", first, "The first of them")->capture_default_str();
  auto* only = app.add_option("--seed", one, "Run this one, twice, and say what it did");
  app.add_option("--repeat", repeat, "One in so many runs twice, and both must end the same; 0: none")->capture_default_str();
  app.add_option("--seconds", seconds_max, "Stop after so long; 0: when all seeds have run")->capture_default_str();
  app.add_option("--follow", follow, "Tell on stderr what happens to this key");
  app.add_flag("--report", with_report, "Name the rare paths (MP_REACHED) that were visited, and those that none reached");
  app.add_flag("--verbose", verbose, "One line per seed");
  CLI11_PARSE(app, argc, argv);
  if (only->count()) first = one, seeds = 1, repeat = 1, verbose = true;

  std::signal(SIGABRT, say_seed);
  std::signal(SIGSEGV, say_seed);
  auto start = std::chrono::steady_clock::now();
  auto elapsed = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  uint64_t failed = 0, ran = 0, repeated = 0;
  sim::SeedResult total;
  bool terminal = isatty(1);
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    if (seconds_max > 0 && elapsed() > seconds_max) break;
    seed_now = seed;
    auto result = sim::run_seed(seed, follow);
    ++ran;
    if (repeat && seed % repeat == 0) {
      ++repeated;
      auto again = sim::run_seed(seed);
      if (again.digest != result.digest)
        result.violations += fmt::format("NOT DETERMINED: the same seed ended in {:016x} ({} events) and {:016x} ({} events)\n", result.digest, result.events, again.digest, again.events);
    }
    total.events += result.events, total.checked += result.checked, total.faults += result.faults;
    total.virtual_seconds += result.virtual_seconds, total.blocks_found_again += result.blocks_found_again;
    auto &sum = total.workload, &part = result.workload;
    sum.operations += part.operations, sum.blocks_stored += part.blocks_stored, sum.blocks_loaded += part.blocks_loaded;
    sum.blocks_missed += part.blocks_missed, sum.removals += part.removals, sum.no_space += part.no_space;
    if (verbose)
      fmt::print("seed {}: {}; {:.0f} s, {} events, {} operations, {} stored, {} loaded, {} missed, {} removals, {} no space, {} faults, {} found again, digest {:016x}\n", seed,
                 result.shape, result.virtual_seconds, result.events, part.operations, part.blocks_stored, part.blocks_loaded, part.blocks_missed, part.removals,
                 part.no_space, result.faults, result.blocks_found_again, result.digest);
    if (!result.violations.empty()) {
      ++failed;
      fmt::print("\nseed {} failed ({}):\n{}again with: millpond_sim --seed {}\n", seed, result.shape, result.violations, seed);
    }
    if (terminal && !verbose) fmt::print("\r{} of {} seeds, {} failed, {:.1f} seeds/s ", ran, seeds, failed, double(ran) / elapsed());
    std::fflush(stdout);
  }
  fmt::print("{}{} seeds in {:.1f} s ({:.1f}/s, {} of them twice), {} failed: {:.0f} s of virtual time, {} events, {} operations, {} blocks stored, {} loaded, {} missed, "
             "{} removals, {} without space, {} faults, {} blocks found again after quiet, {} statements checked\n",
             terminal ? "\n" : "", ran, elapsed(), double(ran + repeated) / elapsed(), repeated, failed, total.virtual_seconds, total.events, total.workload.operations,
             total.workload.blocks_stored, total.workload.blocks_loaded, total.workload.blocks_missed, total.workload.removals, total.workload.no_space, total.faults,
             total.blocks_found_again, total.checked);
  if (with_report) report();
  return failed ? 1 : 0;
}
