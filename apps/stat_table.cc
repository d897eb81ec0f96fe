#include "stat_table.h"

#include <fmt/format.h>

#include <map>
#include <vector>

#include "base/bytes.h"
#include "replay/json_cursor.h"

namespace millpond::apps {
namespace {
using replay::JsonCursor;

// The members of an object that are numbers, texts or yes/no; anything deeper is skipped.
struct Members {
  std::map<std::string, double> numbers;
  std::map<std::string, std::string> texts;
  double number(const std::string& name) const {
    auto at = numbers.find(name);
    return at == numbers.end() ? 0 : at->second;
  }
  std::string words(const std::string& name) const {
    auto at = texts.find(name);
    return at == texts.end() ? "-" : at->second;
  }
  std::string size(const std::string& name) const { return numbers.count(name) ? text(Bytes{uint64_t(number(name))}) : "-"; }
};

void read_value(JsonCursor& cursor, Members& members, const std::string& name) {
  char next = cursor.peek();
  if (next == '"') cursor.string(members.texts[name]);
  else if (next == '-' || (next >= '0' && next <= '9')) cursor.number(members.numbers[name]);
  else if (next == 't') members.texts[name] = "yes", cursor.skip();
  else cursor.skip();   // false, null, and what stands deeper
}
Members read_members(JsonCursor& cursor) {
  Members members;
  std::string name;
  for (bool first = true; cursor.member(first, name);) read_value(cursor, members, name);
  return members;
}

}  // namespace

uint64_t largest_node(std::string_view json) {
  JsonCursor cursor(json);
  double most = 0;
  std::string name;
  for (bool first = true; cursor.member(first, name);) {
    if (name != "nodes") cursor.skip();
    else
      for (bool first_node = true; cursor.element(first_node);)
        if (Members node = read_members(cursor); node.words("state") == "alive") most = std::max(most, node.number("capacity_bytes"));
  }
  return cursor.ok() ? uint64_t(most) : 0;
}

Result<std::string> stat_table(std::string_view json) {
  JsonCursor cursor(json);
  Members master, totals;
  std::vector<Members> nodes;
  std::string name;
  for (bool first = true; cursor.member(first, name);) {
    if (name == "nodes")
      for (bool first_node = true; cursor.element(first_node);) nodes.push_back(read_members(cursor));
    else if (name == "totals") totals = read_members(cursor);
    else read_value(cursor, master, name);
  }
  if (!cursor.ok()) return error(Code::corrupt, "the master's state is not understood: {}", cursor.error());

  size_t widest = 4;
  for (auto& node : nodes) widest = std::max(widest, node.words("name").size());
  std::string out = fmt::format("{:<{}}  {:<21}  {:<8} {:>9}  {:>10} {:>10} {:>10}  {:>6}\n", "node", widest, "address", "state", "blocks", "used", "free", "memory", "weight");
  for (auto& node : nodes)
    out += fmt::format("{:<{}}  {:<21}  {:<8} {:>9.0f}  {:>10} {:>10} {:>10}  {:>6.2f}\n", node.words("name"), widest, node.words("address"), node.words("state"),
                       node.number("blocks"), node.size("used_bytes"), node.size("free_bytes"), node.size("capacity_bytes"), node.number("weight"));
  if (nodes.empty()) out += "no node has joined: start one with `millpond node`\n";
  out += fmt::format("\n{:.0f} blocks in all; {} of {} used, {} free; {:.0f} nodes alive, {:.0f} suspect, {:.0f} dead\n", totals.number("blocks"), totals.size("used_bytes"),
                     totals.size("capacity_bytes"), totals.size("free_bytes"), totals.number("nodes_alive"), totals.number("nodes_suspect"), totals.number("nodes_dead"));
  out += fmt::format("master {}, up {:.0f} s{}\n", master.words("address"), master.number("uptime_seconds"),
                     master.words("warming") == "yes" ? ", warming: nodes are still telling what they hold" : "");
  return out;
}

}  // namespace millpond::apps
