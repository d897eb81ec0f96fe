#include "replay/options.h"

namespace millpond::replay {

config::Section describe(Options& o) {
  config::Section s("replay", "Replays a trace of requests against a running cluster; real bytes move and every one is checked.");
  s.add("trace", o.trace, "Trace in Mooncake JSONL form (timestamp, input_length, output_length, hash_ids; session if known).");
  s.add("master", o.master, "host:port of the master; several, comma-separated: engine i uses the i-th.");
  s.add("engines", o.engines, "Engine processes.", {1, 64});
  s.add("block_size", o.block_size, "Bytes stored for a block of 512 tokens; a multiple of 8 x layers.", {KiB(4), MiB(256)});
  s.add("layers", o.layers, "Pieces that a block is scattered over in the engine's memory.", {1, 256});
  s.add("batch_blocks", o.batch_blocks, "Blocks per load or store call; the engine's memory is this many blocks.", {1, 4096});
  s.add("speed", o.speed, "Trace seconds per second; 0: as fast as the engines take turns, order kept.", {0, 1e6});
  s.add("turns_max", o.turns_max, "Stop after so many requests; 0: all.");
  s.add("prefill_speed", o.prefill_speed, "Tokens per second that the modelled engine prefills (an assumption).", {1, 1e9});
  s.add("model_bytes_per_token", o.model_bytes_per_token,
        "KV bytes per token of the modelled engine; its load time is these bytes at the measured rate.", {Bytes{1}, MiB(64)});
  s.add("lookup_deadline", o.lookup_deadline, "A lookup without an answer by then is a miss.");
  s.add("open_deadline", o.open_deadline, "How long an engine tries to reach its master.");
  s.add("turn_deadline", o.turn_deadline, "An engine process that needs longer for one turn ends the replay with an error.");
  s.add("tenant", o.tenant, "Tenant whose blocks these are.");
  s.add("transports", o.transports, "Ways that bytes may take: local,shm,tcp; empty: MILLPOND_TRANSPORTS, else all.");
  s.add("cluster_id", o.cluster_id, "Name of the cluster; must match the master's.");
  s.add_secret("cluster_key", o.cluster_key, "Shared secret of the cluster; empty: none.");
  s.add("json", o.json, "File for the figures and one record per turn; \"-\": stdout.");
  s.add("loads", o.loads, "File for one JSON line per loaded block (key, bytes, owner, checksum of the landed bytes).");
  s.add("label", o.label, "Members that each line of `loads` carries, as name=value,name=value.");
  s.add("progress", o.progress, "auto (a bar on a terminal), lines (\"progress DONE ALL\" on stderr) or none.");
  return s;
}

std::vector<std::string> masters_of(const Options& options) {
  std::vector<std::string> list;
  size_t at = 0;
  while (at <= options.master.size()) {
    size_t end = options.master.find(',', at);
    if (end == std::string::npos) end = options.master.size();
    std::string one = options.master.substr(at, end - at);
    size_t begin = one.find_first_not_of(' ');
    if (begin != std::string::npos) list.push_back(one.substr(begin, one.find_last_not_of(' ') - begin + 1));
    at = end + 1;
  }
  return list;
}

Result<std::string> label_members(const std::string& label) {
  auto plain = [](std::string_view word) {
    for (char c : word)
      if (c == '"' || c == '\\' || uint8_t(c) < 0x20) return false;
    return !word.empty();
  };
  std::string members;
  size_t at = 0;
  while (at < label.size()) {
    size_t end = std::min(label.find(',', at), label.size());
    std::string pair = label.substr(at, end - at);
    size_t equals = pair.find('=');
    if (equals == std::string::npos || !plain(pair.substr(0, equals)) || !plain(pair.substr(equals + 1)))
      return error(Code::invalid, "label \"{}\": \"{}\" is not name=value (without quotes and backslashes)", label, pair);
    members += "\"" + pair.substr(0, equals) + "\":\"" + pair.substr(equals + 1) + "\",";
    at = end + 1;
  }
  return members;
}

Status validate(const Options& options) {
  if (options.trace.empty())
    return Status(Code::invalid, "no trace given; e.g. {}", "millpond replay examples/traces/claude_code_excerpt.jsonl");
  if (options.block_size.count % (8 * options.layers) != 0)
    return Status(Code::invalid, "block_size {} is not a multiple of 8 x layers = {} bytes", text(options.block_size), 8 * options.layers);
  if (options.block_size.count > GiB(1).count / options.batch_blocks)
    return Status(Code::invalid, "batch_blocks {} x block_size {} is more than 1 GiB per engine; lower one of them",
                  options.batch_blocks, text(options.block_size));
  size_t masters = masters_of(options).size();
  if (masters != 1 && masters != options.engines)
    return Status(Code::invalid, "{} masters for {} engines; give one for all, or one for each", masters, options.engines);
  if (options.progress != "auto" && options.progress != "lines" && options.progress != "none")
    return Status(Code::invalid, "progress \"{}\" is not auto, lines or none", options.progress);
  auto members = label_members(options.label);
  return members ? Status() : members.error();
}

}  // namespace millpond::replay
