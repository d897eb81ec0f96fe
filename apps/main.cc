// millpond: one binary. Names the commands and what each takes; parse, build, start happen behind them.
#include <cstdio>
#include <cstdlib>

#include "base/log.h"
#include "command_line.h"
#include "commands.h"

using namespace millpond::apps;

int main(int argc, char** argv) {
  if (const char* level = std::getenv("MILLPOND_LOG"))
    if (millpond::log::Level known{}; !millpond::log::parse_level(level, known))
      std::fprintf(stderr, "millpond: MILLPOND_LOG is \"%s\": give debug, info, warn, error or off; info it is\n", level);
  Options options;
  Words words;
  Flag json{"--json", "", "JSON on stdout, for programs.", [&](auto) { words.json = true; }};
  Argument keys{"KEY", "Keys, 1 … 4096 bytes each.", &words.first, 1, 100'000};
  Argument key{"KEY", "A key, 1 … 4096 bytes.", &words.first};

  std::vector<std::string> who{"rpc.cluster_id", "rpc.cluster_key", "rpc.tenant"};   // the rest of [rpc] is for daemons
  auto with = [&](std::vector<std::string> tables) {
    tables.insert(tables.end(), who.begin(), who.end());
    return tables;
  };
  auto client = with({"client"}), bench = with({"bench", "client"});

  std::vector<Command> commands{
      {.name = "master",
       .about = "Runs the master: which block is on which nodes, which nodes live, where the next block goes.",
       .example = "  millpond master --listen 127.0.0.1:7700\n",
       .tables = {"master", "rpc"},
       .run = [&] { return run_master(options); }},
      {.name = "node",
       .about = "Runs a node: this machine's share of the pool.",
       .example = "  millpond node --memory 64GiB --master 127.0.0.1:7700\n",
       .tables = {"node", "rpc"},
       .run = [&] { return run_node(options); }},
      {.name = "stat",
       .about = "Shows the nodes and what the pool holds.",
       .example = "  millpond stat --json\n",
       .tables = client,
       .flags = {json},
       .run = [&] { return run_stat(options, words); }},
      {.name = "put",
       .about = "Stores a file under a key.",
       .example = "  millpond put weights.part1 part1.bin\n  echo hello | millpond put greeting -\n",
       .tables = client,
       .arguments = {key, {"FILE", "What to store; - is stdin.", &words.second}},
       .run = [&] { return run_put(options, words); }},
      {.name = "get",
       .about = "Loads what is stored under a key, verified; exit status 1 is a miss.",
       .example = "  millpond get greeting\n  millpond get weights.part1 -o part1.bin\n",
       .tables = client,
       .arguments = {key},
       .flags = {{"-o,--output", "FILE", "Where to write it; default is stdout.", [&](std::string file) { words.output = file; }}},
       .run = [&] { return run_get(options, words); }},
      {.name = "locate",
       .about = "Says which nodes hold keys, or why they miss; exit status 1 when one misses.",
       .example = "  millpond locate greeting farewell\n",
       .tables = client,
       .arguments = {keys},
       .flags = {json},
       .run = [&] { return run_locate(options, words); }},
      {.name = "rm",
       .about = "Removes keys, or everything of the namespace.",
       .example = "  millpond rm greeting\n  millpond rm --all --namespace llama-70b\n",
       .tables = client,
       .arguments = {{"KEY", keys.about, &words.first, 0, 100'000}},
       .flags = {{"--all", "", "Everything of this tenant and namespace.", [&](auto) { words.all = true; }}},
       .run = [&] { return run_remove(options, words); }},
      {.name = "replay",
       .about = "Replays a trace of requests against a running cluster; real bytes move and each is checked.",
       .example = "  millpond replay examples/traces/claude_code_excerpt.jsonl --engines 3\n",
       .tables = {"replay"},
       .arguments = {{"TRACE", "Trace in Mooncake JSONL form; the same as --trace.", &words.first, 0, 1}},
       .run = [&] { return run_replay(options, words); }},
      {.name = "bench",
       .about = "Measures stores and loads against a running cluster, beside memcpy and a plain socket of the same run.",
       .example = "  millpond bench --blocks 64KiB,2MiB --concurrency 1,8\n",
       .tables = bench,
       .flags = {json},
       .run = [&] { return run_bench(options, words); }},
      {.name = "config",
       .about = "Prints every setting: as the example file, as the page of the docs, or as the values of now.",
       .example = "  millpond config --toml > millpond.toml\n  millpond config --json -c millpond.toml\n",
       .flags = {{"--toml", "", "millpond.toml with every setting, commented out.", [&](auto) { words.toml = true; }},
                 {"--markdown", "", "docs/settings.md.", [&](auto) { words.markdown = true; }},
                 {"--json", "", "The values of now: file and environment applied (default).", [&](auto) { words.json = true; }}},
       .run = [&] { return run_config(options, words); }},
      {.name = "version", .about = "Prints the release.", .run = [] { return std::puts("millpond " MILLPOND_VERSION), int(kOk); }},
  };
  return run(commands, options.tables, argc, argv);
}
