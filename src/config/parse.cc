// Texts of settings: sizes, durations, and the word that somebody probably meant.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <iterator>

#include "config/settings.h"

namespace millpond::config {
namespace {

struct Unit {
  std::string_view name;   // lower case
  uint64_t factor;
};
constexpr Unit kSizes[] = {
    {"", 1},           {"b", 1},           {"kb", 1'000},         {"mb", 1'000'000},     {"gb", 1'000'000'000},
    {"tb", 1'000'000'000'000ull},          {"kib", 1ull << 10},   {"mib", 1ull << 20},   {"gib", 1ull << 30},
    {"tib", 1ull << 40},
};
constexpr Unit kDurations[] = {
    {"ns", 1},           {"us", 1'000},           {"ms", 1'000'000},          {"s", 1'000'000'000},
    {"min", 60'000'000'000ull},                   {"h", 3'600'000'000'000ull},
};
constexpr std::string_view kSizeForms = "write a number and B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024), like 64GiB";
constexpr std::string_view kDurationForms = "write a number and ns, us, ms, s, min or h, like 250ms";

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = char(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

// "1.5 MB" → 1.5 * factor, whole numbers exactly. `limit` is the largest answer.
template <size_t N>
Result<uint64_t> measured(std::string_view text, const Unit (&units)[N], uint64_t limit, std::string_view forms) {
  auto wrong = [&] { return error(Code::invalid, "\"{}\" is not understood: {}", text, forms); };
  const char* end = text.data() + text.size();
  if (text.empty() || !std::isdigit(static_cast<unsigned char>(text[0]))) return wrong();   // no sign, no "inf"
  uint64_t whole = 0;
  auto [after_whole, whole_error] = std::from_chars(text.data(), end, whole);
  if (whole_error != std::errc()) return error(Code::invalid, "\"{}\" is too large: {}", text, forms);
  double fraction = 0;
  const char* at = after_whole;
  if (at != end && *at == '.') {
    auto [after, fraction_error] = std::from_chars(at, end, fraction, std::chars_format::fixed);
    if (fraction_error != std::errc()) return wrong();
    at = after;
  }
  while (at != end && *at == ' ') ++at;
  std::string unit = lower({at, size_t(end - at)});
  auto found = std::find_if(std::begin(units), std::end(units), [&](const Unit& u) { return u.name == unit; });
  if (found == std::end(units)) return wrong();
  auto value = (unsigned __int128)whole * found->factor + uint64_t(std::llround(fraction * double(found->factor)));
  if (value > limit) return error(Code::invalid, "\"{}\" is too large: {}", text, forms);
  return uint64_t(value);
}

// Optimal string alignment: insert, delete, replace, swap neighbours, each 1.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> d(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i)
    for (size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

}  // namespace

Result<Bytes> parse_bytes(std::string_view text) {
  auto value = measured(text, kSizes, ~0ull, kSizeForms);
  if (!value) return tl::unexpected<Status>(std::move(value).error());
  return Bytes{*value};
}

Result<Duration> parse_duration(std::string_view text) {
  if (text == "0") return Duration(0);   // the one duration that needs no unit
  auto value = measured(text, kDurations, uint64_t(Duration::max().count()), kDurationForms);
  if (!value) return tl::unexpected<Status>(std::move(value).error());
  return Duration(int64_t(*value));
}

std::string text(Duration duration) {
  int64_t count = duration.count();
  if (count == 0) return "0 s";
  for (auto unit = std::rbegin(kDurations); unit != std::rend(kDurations); ++unit)
    if (count % int64_t(unit->factor) == 0) return fmt::format("{} {}", count / int64_t(unit->factor), unit->name);
  return fmt::format("{} ns", count);
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  if (word.size() > 64) return {};   // a name nobody typed; the distance costs the product of the lengths
  std::string asked = lower(word), best;
  size_t best_distance = std::max<size_t>(2, word.size() / 3) + 1;
  for (auto& name : known) {
    size_t distance = edit_distance(asked, lower(name));
    if (distance < best_distance && distance < std::max(asked.size(), name.size())) best_distance = distance, best = name;
  }
  if (best.empty() && word.size() >= 3)   // "memory" for "memory_max": half a name is a hint too
    for (auto& name : known)
      if (name.find(asked) != std::string::npos || asked.find(name) != std::string::npos) return name;
  return best;
}

}  // namespace millpond::config
