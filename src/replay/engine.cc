#include "replay/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "base/checksum.h"
#include "replay/content.h"

namespace millpond::replay {

std::string block_key(uint64_t block) { return fmt::format("block/{}", block); }

Engine::Engine(EngineOptions options, std::unique_ptr<EngineCache> cache) : options_(std::move(options)), cache_(std::move(cache)) {
  MP_CHECK(options_.layers > 0 && options_.block_size.count % (8 * options_.layers) == 0, "block of {} bytes in {} layers",
           options_.block_size.count, options_.layers);
  MP_CHECK(options_.batch_blocks > 0 && options_.clock && options_.cpu_clock, "an engine needs a batch and clocks");
  memory_.resize(options_.batch_blocks * options_.block_size.count);
  gathered_.resize(options_.block_size.count);
}

std::vector<MutableByteSpan> Engine::pieces(size_t slot) {
  size_t piece = options_.block_size.count / options_.layers;
  std::vector<MutableByteSpan> list(options_.layers);
  for (size_t layer = 0; layer < options_.layers; ++layer)
    list[layer] = {memory_.data() + (layer * options_.batch_blocks + slot) * piece, piece};
  return list;
}

TurnRecord Engine::run(const Trace& trace, uint32_t turn_index, std::string& lines) {
  const Turn& turn = trace.turns[turn_index];
  TurnRecord record;
  record.turn = turn_index;
  record.engine = options_.number;
  record.blocks = uint32_t(turn.blocks.size());
  if (turn.blocks.empty()) return record;

  std::vector<std::string> keys;
  keys.reserve(turn.blocks.size());
  for (uint64_t block : turn.blocks) keys.push_back(block_key(block));

  Time start = options_.clock();
  Lookup found = cache_->lookup(keys);
  record.lookup_ns = (options_.clock() - start).count();
  record.lookup_failed = found.outcome != Outcome::ok;
  found.matched = std::min({found.matched, found.blocks.size(), keys.size()});
  record.matched = uint32_t(found.matched);

  load_prefix(turn, found, keys, record, lines);
  store_rest(std::span<const std::string>(keys), record);
  return record;
}

void Engine::load_prefix(const Turn& turn, const Lookup& found, std::span<const std::string> keys, TurnRecord& record,
                         std::string& lines) {
  bool unbroken = true;   // a prefix ends at its first missing block
  for (size_t done = 0; done < found.matched && unbroken;) {
    size_t count = std::min(options_.batch_blocks, found.matched - done);
    Lookup part;
    part.matched = count;
    part.warming = found.warming;
    part.plan = found.plan;
    part.blocks.assign(found.blocks.begin() + done, found.blocks.begin() + done + count);
    std::vector<LoadBlock> blocks(count);
    for (size_t i = 0; i < count; ++i) {
      blocks[i].key = keys[done + i];
      blocks[i].pieces = pieces(i);
      // An earlier turn may have landed the same block in the same slot: a load that did nothing would look right.
      for (MutableByteSpan piece : blocks[i].pieces) std::memset(piece.data(), 0xDB, piece.size());
    }
    Time start = options_.clock(), cpu_start = options_.cpu_clock();
    std::vector<LoadAnswer> answers = cache_->load(part, blocks);
    record.load_ns += (options_.clock() - start).count();
    record.load_cpu_ns += (options_.cpu_clock() - cpu_start).count();
    MP_CHECK(answers.size() == count, "{} answers to {} blocks", answers.size(), count);
    for (size_t i = 0; i < count; ++i) {
      bool right = answers[i].outcome == Outcome::ok && check(turn, keys[done + i], i, answers[i], record, lines);
      if (answers[i].outcome != Outcome::ok) ++record.load_misses;
      unbroken = unbroken && right;
      if (unbroken) ++record.hits;
    }
    done += count;
  }
}

bool Engine::check(const Turn& turn, const std::string& key, size_t slot, const LoadAnswer& answer, TurnRecord& record,
                   std::string& lines) {
  uint64_t seed = content_seed(key);
  // A block of another length is wrong in every byte that it lacks.
  uint64_t length = std::min<uint64_t>(answer.length, gathered_.size());
  uint64_t wrong = gathered_.size() - length;
  uint64_t offset = 0;
  for (MutableByteSpan piece : pieces(slot)) {
    size_t here = std::min<uint64_t>(piece.size(), length - offset);
    wrong += count_wrong_bytes(seed, offset, piece.first(here));
    if (options_.want_lines) std::memcpy(gathered_.data() + offset, piece.data(), here);
    offset += here;
    if (offset == length) break;
  }
  ++record.loads;
  ++record.verified;
  record.loaded_bytes += answer.length;
  record.wrong_bytes += wrong;
  record.wrong_blocks += wrong != 0;
  if (options_.want_lines) {
    uint64_t sum = hash64(ByteSpan(gathered_).first(length));
    fmt::format_to(std::back_inserter(lines),
                   "{{{}\"key\":\"{}\",\"bytes\":{},\"owner\":\"{}\",\"transport\":\"{}\",\"checksum\":\"{:016x}\",\"ok\":{},"
                   "\"engine\":{},\"session\":{},\"turn\":{}}}\n",
                   options_.line_prefix, key, answer.length, answer.owner, answer.transport, sum, wrong == 0, options_.number,
                   turn.session, turn.turn);
  }
  return wrong == 0;
}

void Engine::store_rest(std::span<const std::string> keys, TurnRecord& record) {
  for (size_t done = record.hits; done < keys.size();) {
    size_t count = std::min(options_.batch_blocks, keys.size() - done);
    std::vector<StoreBlock> blocks(count);
    for (size_t i = 0; i < count; ++i) {
      blocks[i].key = keys[done + i];
      if (done + i > 0) blocks[i].parent = keys[done + i - 1];
      uint64_t seed = content_seed(blocks[i].key);
      uint64_t offset = 0;
      for (MutableByteSpan piece : pieces(i)) {   // the prefill: here the content comes into being
        fill_content(seed, offset, piece);
        offset += piece.size();
        blocks[i].pieces.push_back(piece);
      }
    }
    Time start = options_.clock();
    std::vector<Outcome> outcomes = cache_->store(blocks);
    record.store_ns += (options_.clock() - start).count();
    for (Outcome outcome : outcomes) {
      if (outcome == Outcome::ok) ++record.stores;
      else if (outcome == Outcome::exists) ++record.stores_existing;
      else ++record.stores_failed;
    }
    done += count;
    // What would follow a block that found no room is out of every lookup's reach: it would only push others out.
    if (outcomes.empty() || (outcomes.back() != Outcome::ok && outcomes.back() != Outcome::exists)) break;
  }
}

}  // namespace millpond::replay
