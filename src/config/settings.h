// A room states its settings once: name, type and unit (from the field), default (its value now), range, one sentence.
// Flags, TOML, --help, docs/settings.md, millpond.toml and /config all follow from that.
//
//   config::Section describe(Options& o) {
//     config::Section s("node", "One machine's share of the pool.");
//     s.add("memory", o.dram.capacity, "DRAM for blocks.", {.min = MiB(8), .max = TiB(16)});
//     return s;
//   }
// TOML: [node] memory = "64GiB". Flag: --memory 64GiB. Environment: MILLPOND_NODE_MEMORY.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/status.h"
#include "base/time.h"

namespace millpond::config {

struct Setting {
  std::string name;                      // "heartbeat_interval"; flag: --heartbeat-interval
  std::string type;                      // "bytes", "duration", "integer", "fraction", "text", "yes/no"
  std::string default_text;
  std::string range_text;                // "8 MiB … 16 TiB"; empty: any
  std::string about;                     // one sentence
  bool secret = false;                   // shown as "(set)"
  std::string variable;                  // a second environment variable, heard when MILLPOND_<SECTION>_<NAME> is absent
  std::function<Status(std::string_view)> set;   // parses, checks the range, writes the field; invalid says what is wrong and what is allowed
  std::function<std::string()> get;
};

template <typename T>
struct Range {
  T min, max;
};

class Section {
 public:
  Section(std::string name, std::string about);
  Section& add(std::string name, Bytes& field, std::string about, Range<Bytes> range = {{0}, {~0ull}});
  Section& add(std::string name, Duration& field, std::string about, Range<Duration> range = {Duration(0), Duration::max()});
  Section& add(std::string name, size_t& field, std::string about, Range<size_t> range = {0, ~size_t(0)});
  Section& add(std::string name, double& field, std::string about, Range<double> range = {0, 1});
  Section& add(std::string name, bool& field, std::string about);
  Section& add(std::string name, std::string& field, std::string about);
  Section& add_secret(std::string name, std::string& field, std::string about);
  // For a field with a parser of its own (transports): `set` must answer invalid with a sentence.
  Section& add_parsed(std::string name, std::string type, std::string about, std::function<Status(std::string_view)> set, std::function<std::string()> get);

  const std::string& name() const { return name_; }
  const std::string& about() const { return about_; }
  const std::vector<Setting>& settings() const { return settings_; }
  std::vector<Setting>& settings() { return settings_; }

 private:
  std::string name_;
  std::string about_;
  std::vector<Setting> settings_;
};

// Reads [section] tables of a TOML file into the sections. invalid: cannot read, TOML error with line; an unknown table
// or key names the nearest known one; a value out of range says the range. All or nothing is not promised.
Status load_toml(const std::string& path, std::vector<Section>& sections);
Status load_toml_text(std::string_view text, std::string_view origin, std::vector<Section>& sections);
// MILLPOND_<SECTION>_<NAME>, else Setting::variable.
Status load_environment(std::vector<Section>& sections);

std::string example_toml(const std::vector<Section>& sections);   // millpond.toml: every setting, commented out, with its sentence
std::string markdown(const std::vector<Section>& sections);       // docs/settings.md
std::string json(const std::vector<Section>& sections);           // /config: values now, secrets hidden

std::string nearest(std::string_view word, const std::vector<std::string>& known);   // by edit distance; empty: nothing near

// "64GiB", "1.5 MB", "4096"; "250ms", "1s", "2 min". invalid: says which forms are allowed.
Result<Bytes> parse_bytes(std::string_view text);
Result<Duration> parse_duration(std::string_view text);
std::string exact_text(Bytes bytes);                                // "64 KiB", "100000 B": reads back as it was
std::string text(Duration duration);                                // "250 ms"

}  // namespace millpond::config
