#include "replay/trace.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "replay/json_cursor.h"

namespace millpond::replay {
namespace {

struct Line {
  Turn turn;
  std::string session;
  bool has_session = false;
};

Status parse_line(std::string_view text, Line& line) {
  JsonCursor json(text);
  std::string name;
  uint64_t input = 0, output = 0;
  double timestamp = -1;
  bool has_input = false, has_blocks = false, first = true;
  if (json.peek() != '{') return Status(Code::invalid, "expected a JSON object");
  while (json.member(first, name)) {
    if (name == "timestamp") {
      json.number(timestamp);
    } else if (name == "input_length") {
      has_input = json.unsigned_integer(input);
    } else if (name == "output_length") {
      json.unsigned_integer(output);
    } else if (name == "hash_ids") {
      uint64_t id = 0;
      bool first_id = true;
      while (json.element(first_id))
        if (json.unsigned_integer(id)) line.turn.blocks.push_back(id);
      has_blocks = json.ok();
    } else if (name == "session") {
      if (json.peek() == '"') {
        line.has_session = json.string(line.session);
      } else {
        uint64_t number = 0;
        line.has_session = json.unsigned_integer(number);
        line.session = std::to_string(number);
      }
    } else {
      json.skip();
    }
  }
  if (!json.ok()) return Status(Code::invalid, "{}", json.error());
  if (!json.at_end()) return Status(Code::invalid, "text after the end of the object");
  if (timestamp < 0 || timestamp > 1e15) return Status(Code::invalid, "needs a \"timestamp\" in ms of 0 or more");
  if (!has_input) return Status(Code::invalid, "needs an \"input_length\" in tokens");
  if (!has_blocks) return Status(Code::invalid, "needs \"hash_ids\", a list of block ids");
  if (input > kInputTokensMax || output > kInputTokensMax)
    return Status(Code::invalid, "a request of {} tokens in and {} out; the most is {}", input, output, kInputTokensMax);
  size_t full = input / kBlockTokens;
  if (line.turn.blocks.size() < full)
    return Status(Code::invalid, "{} tokens are {} full blocks of {}, but hash_ids has {}", input, full, kBlockTokens,
                  line.turn.blocks.size());
  line.turn.blocks.resize(full);
  line.turn.timestamp_ms = uint64_t(timestamp);
  line.turn.input_length = uint32_t(input);
  line.turn.output_length = uint32_t(output);
  return Status();
}

// Lines of the same time keep their order.
void sort_by_time(std::vector<Turn>& turns) {
  std::vector<std::pair<uint64_t, size_t>> order;
  for (size_t i = 0; i < turns.size(); ++i) order.emplace_back(turns[i].timestamp_ms, i);
  std::sort(order.begin(), order.end());
  std::vector<Turn> sorted;
  sorted.reserve(turns.size());
  for (auto& [timestamp, index] : order) sorted.push_back(std::move(turns[index]));
  turns = std::move(sorted);
}

// A request continues the session whose latest prompt ends with a full block that it has too.
void infer_sessions(Trace& trace) {
  std::unordered_map<uint64_t, uint32_t> session_by_tail;
  for (Turn& turn : trace.turns) {
    bool found = false;
    for (size_t i = turn.blocks.size(); i-- > 0 && !found;) {
      auto at = session_by_tail.find(turn.blocks[i]);
      if (at == session_by_tail.end()) continue;
      found = true;
      turn.session = at->second;
      session_by_tail.erase(at);
    }
    if (!found) {
      turn.session = uint32_t(trace.sessions.size());
      trace.sessions.push_back(std::to_string(turn.session));
    }
    if (!turn.blocks.empty()) session_by_tail[turn.blocks.back()] = turn.session;
  }
}

}  // namespace

uint64_t Trace::input_tokens() const {
  uint64_t sum = 0;
  for (auto& turn : turns) sum += turn.input_length;
  return sum;
}

uint64_t Trace::full_blocks() const {
  uint64_t sum = 0;
  for (auto& turn : turns) sum += turn.blocks.size();
  return sum;
}

uint64_t Trace::unique_blocks() const {
  std::unordered_set<uint64_t> seen;
  for (auto& turn : turns) seen.insert(turn.blocks.begin(), turn.blocks.end());
  return seen.size();
}

Result<Trace> parse_trace(std::string_view text, std::string_view origin) {
  Trace trace;
  std::unordered_map<std::string, uint32_t> numbers;
  std::vector<std::string> names;
  std::vector<bool> named;
  size_t number = 0;
  bool any_session = false, all_sessions = true;
  while (!text.empty()) {
    size_t end = text.find('\n');
    std::string_view row = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    ++number;
    if (row.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    Line line;
    Status status = parse_line(row, line);
    if (!status.ok()) return error(Code::invalid, "{}, line {}: {}", origin, number, status.message());
    (line.has_session ? any_session : all_sessions) = line.has_session;
    if (any_session && !all_sessions)
      return error(Code::invalid, "{}, line {}: some lines name a \"session\" and some do not; all must, or none", origin, number);
    if (line.has_session) {
      auto [at, fresh] = numbers.try_emplace(line.session, uint32_t(numbers.size()));
      if (fresh) names.push_back(line.session);
      line.turn.session = at->second;
    }
    trace.turns.push_back(std::move(line.turn));
  }
  if (trace.turns.empty()) return error(Code::invalid, "{}: no requests in it", origin);
  sort_by_time(trace.turns);
  if (any_session) trace.sessions = std::move(names);
  else infer_sessions(trace);
  std::vector<uint32_t> turns_seen(trace.sessions.size());
  for (Turn& turn : trace.turns) turn.turn = turns_seen[turn.session]++;
  return trace;
}

Result<Trace> read_trace(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return error(Code::invalid, "cannot read the trace {}: {}", path, std::strerror(errno));
  std::ostringstream text;
  if (file.peek() != std::ifstream::traits_type::eof()) text << file.rdbuf();
  if (file.bad()) return error(Code::invalid, "cannot read the trace {}: is it a file?", path);
  std::string content = std::move(text).str();
  if (content.starts_with("\x1f\x8b"))
    return error(Code::invalid, "{} is compressed; unpack it first: gunzip -k {}", path, path);
  return parse_trace(content, path);
}

}  // namespace millpond::replay
