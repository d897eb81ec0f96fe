#include "replay/summary.h"

#include <fmt/format.h>

#include <iterator>
#include <unordered_set>

#include "replay/dispatch.h"
#include "replay/ttft.h"

namespace millpond::replay {

Summary summarize(const Options& options, const Trace& trace, const ReplayRun& run) {
  Summary s;
  s.turns = trace.turns.size();
  std::unordered_set<uint32_t> sessions;   // a trace that was cut short knows more names than it has sessions
  for (const Turn& turn : trace.turns) sessions.insert(turn.session);
  s.sessions = sessions.size();
  s.engines = options.engines;
  Bound shared = infinite_shared(trace);
  s.tokens_total = shared.tokens_total;
  s.hit_rate_bound = shared.hit_rate();
  s.hit_rate_bound_alone = infinite_alone(trace, uint32_t(options.engines)).hit_rate();
  s.unique_blocks = trace.unique_blocks();
  s.wall_seconds = seconds(run.wall);
  s.trace_seconds = double(trace.turns.back().timestamp_ms - trace.turns.front().timestamp_ms) / 1e3;

  std::vector<TurnCost> costs;
  std::vector<double> lookups;
  for (const TurnRecord& r : run.records) {
    const Turn& turn = trace.turns[r.turn];
    uint64_t saved = uint64_t(r.hits) * kBlockTokens;
    s.tokens_not_prefilled += saved;
    s.blocks_loaded += r.loads;
    s.blocks_verified += r.verified;
    s.wrong_blocks += r.wrong_blocks;
    s.wrong_bytes += r.wrong_bytes;
    s.loaded_bytes += r.loaded_bytes;
    s.load_misses += r.load_misses;
    s.blocks_stored += r.stores;
    s.stores_existing += r.stores_existing;
    s.stores_failed += r.stores_failed;
    s.lookups_failed += r.lookup_failed;
    s.load_seconds += double(r.load_ns) / 1e9;
    s.load_cpu_seconds += double(r.load_cpu_ns) / 1e9;
    lookups.push_back(double(r.lookup_ns) / 1e6);
    costs.push_back({.timestamp_ms = double(turn.timestamp_ms),
                     .session = turn.session,
                     .engine = r.engine,
                     .tokens_loaded = uint64_t(r.loads) * kBlockTokens,
                     .tokens_prefilled = turn.input_length - saved});
  }
  if (s.tokens_total > 0) s.hit_rate = double(s.tokens_not_prefilled) / double(s.tokens_total);
  if (s.load_seconds > 0) s.load_GBps = double(s.loaded_bytes) / s.load_seconds / 1e9;
  if (s.load_cpu_seconds > 0) s.load_core_GBps = double(s.loaded_bytes) / s.load_cpu_seconds / 1e9;
  s.lookup_ms_p50 = percentile(lookups, 0.50);
  s.lookup_ms_p99 = percentile(lookups, 0.99);
  TtftModel model{.prefill_speed = options.prefill_speed,
                  .bytes_per_token = double(options.model_bytes_per_token.count),
                  .load_rate = s.load_core_GBps > 0 ? s.load_core_GBps * 1e9 : 1};   // nothing loaded: the rate is never used
  s.ttft_ms = ttft_ms(costs, model);
  s.ttft_ms_p50 = percentile(s.ttft_ms, 0.50);
  s.ttft_ms_p99 = percentile(s.ttft_ms, 0.99);
  return s;
}

std::string json(const Options& options, const Trace& trace, const ReplayRun& run, const Summary& s) {
  std::string out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{{\n\"turns\": {}, \"sessions\": {}, \"engines\": {}, \"block_bytes\": {}, \"block_tokens\": {},\n", s.turns,
                 s.sessions, s.engines, options.block_size.count, kBlockTokens);
  fmt::format_to(to, "\"hit_rate\": {:.6f}, \"hit_rate_bound\": {:.6f}, \"hit_rate_bound_alone\": {:.6f},\n", s.hit_rate,
                 s.hit_rate_bound, s.hit_rate_bound_alone);
  fmt::format_to(to, "\"tokens_total\": {}, \"tokens_not_prefilled\": {}, \"unique_blocks\": {},\n", s.tokens_total,
                 s.tokens_not_prefilled, s.unique_blocks);
  fmt::format_to(to, "\"blocks_loaded\": {}, \"blocks_verified\": {}, \"wrong_blocks\": {}, \"wrong_bytes\": {}, \"loaded_bytes\": {},\n",
                 s.blocks_loaded, s.blocks_verified, s.wrong_blocks, s.wrong_bytes, s.loaded_bytes);
  fmt::format_to(to, "\"load_misses\": {}, \"blocks_stored\": {}, \"stores_existing\": {}, \"stores_failed\": {}, \"lookups_failed\": {},\n",
                 s.load_misses, s.blocks_stored, s.stores_existing, s.stores_failed, s.lookups_failed);
  fmt::format_to(to, "\"load_seconds\": {:.6f}, \"load_cpu_seconds\": {:.6f}, \"load_GBps\": {:.4f}, \"load_core_GBps\": {:.4f}, \"wall_seconds\": {:.3f}, \"trace_seconds\": {:.3f},\n",
                 s.load_seconds, s.load_cpu_seconds, s.load_GBps, s.load_core_GBps, s.wall_seconds, s.trace_seconds);
  fmt::format_to(to, "\"lookup_ms\": {{\"p50\": {:.3f}, \"p99\": {:.3f}}}, \"ttft_ms\": {{\"p50\": {:.1f}, \"p99\": {:.1f}}},\n",
                 s.lookup_ms_p50, s.lookup_ms_p99, s.ttft_ms_p50, s.ttft_ms_p99);
  fmt::format_to(to, "\"prefill_speed\": {}, \"model_bytes_per_token\": {},\n\"per_turn\": [\n", options.prefill_speed,
                 options.model_bytes_per_token.count);
  for (size_t i = 0; i < run.records.size(); ++i) {
    const TurnRecord& r = run.records[i];
    const Turn& turn = trace.turns[r.turn];
    fmt::format_to(to,
                   "{{\"timestamp_ms\": {}, \"session\": {}, \"turn\": {}, \"engine\": {}, \"tokens\": {}, \"tokens_not_prefilled\": {}, "
                   "\"loads\": {}, \"load_misses\": {}, \"stores\": {}, \"lookup_ms\": {:.3f}, \"load_ms\": {:.3f}, \"store_ms\": {:.3f}, "
                   "\"ttft_ms\": {:.1f}}}{}\n",
                   turn.timestamp_ms, turn.session, turn.turn, r.engine, turn.input_length, uint64_t(r.hits) * kBlockTokens, r.loads,
                   r.load_misses, r.stores, double(r.lookup_ns) / 1e6, double(r.load_ns) / 1e6, double(r.store_ns) / 1e6, s.ttft_ms[i],
                   i + 1 < run.records.size() ? "," : "");
  }
  out += "]}\n";
  return out;
}

std::string table(const Options& options, const Summary& s) {
  std::string out;
  auto to = std::back_inserter(out);
  fmt::format_to(to, "{} requests of {} sessions over {} engines in {:.1f} s", s.turns, s.sessions, s.engines, s.wall_seconds);
  if (s.wall_seconds > 0) fmt::format_to(to, " ({:.0f}x the trace's pace)", s.trace_seconds / s.wall_seconds);
  fmt::format_to(to, "\n  hit rate                {:.1f} % of prompt tokens; bound {:.1f} % (infinite cache), {:.1f} % if no engine shares\n",
                 100 * s.hit_rate, 100 * s.hit_rate_bound, 100 * s.hit_rate_bound_alone);
  fmt::format_to(to, "  tokens not prefilled    {} of {}\n", s.tokens_not_prefilled, s.tokens_total);
  fmt::format_to(to, "  modelled TTFT           p50 {:.0f} ms, p99 {:.0f} ms (prefill {:.0f} tokens/s, {} per token at the measured rate)\n",
                 s.ttft_ms_p50, s.ttft_ms_p99, options.prefill_speed, text(options.model_bytes_per_token));
  fmt::format_to(to, "  loaded                  {} in blocks of {}, {:.2f} GB/s per engine while loading\n", text(Bytes{s.loaded_bytes}),
                 text(options.block_size), s.load_GBps);
  fmt::format_to(to, "  lookup                  p50 {:.2f} ms, p99 {:.2f} ms; {} without an answer\n", s.lookup_ms_p50, s.lookup_ms_p99,
                 s.lookups_failed);
  fmt::format_to(to, "  stored                  {} blocks, {} were there, {} found no place\n", s.blocks_stored, s.stores_existing, s.stores_failed);
  fmt::format_to(to, "  verified                {} blocks, {} wrong bytes; {} gone between lookup and load\n", s.blocks_verified, s.wrong_bytes,
                 s.load_misses);
  return out;
}

}  // namespace millpond::replay
