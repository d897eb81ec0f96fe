#include "client/settings.h"

namespace millpond::client {
namespace {

std::string text(const transfer::Transports& transports) {
  std::string words;
  for (auto [allowed, word] : {std::pair(transports.local, "local"), {transports.shm, "shm"}, {transports.tcp, "tcp"}})
    if (allowed) words += (words.empty() ? "" : ",") + std::string(word);
  return words;
}

}  // namespace

config::Section describe(Options& o) {
  using std::chrono::milliseconds;
  using std::chrono::minutes;
  config::Section s("client", "How an engine or a command uses the pool.");
  s.add("master", o.master, "host:port of the master.");
  s.add("tenant", o.tenant, "Whose blocks: tenants never see each other's.");
  s.add("namespace", o.namespace_name, "Which blocks fit together: a fingerprint of model, dtype, layout and block size.");
  s.add_parsed("transports", "words", "Ways to move bytes that may be used, of local, shm and tcp.",
               [&o](std::string_view value) -> Status {
                 auto parsed = transfer::parse_transports(value);
                 if (!parsed) return parsed.error();
                 o.transports = *parsed;
                 return {};
               },
               [&o] { return text(o.transports); });
  s.add("lookup_deadline", o.lookup_deadline, "A lookup takes no longer than this, then it is a miss.", {milliseconds(1), minutes(1)});
  s.add("move_deadline", o.move_deadline, "A load or store takes no longer than this plus its bytes at move_rate.", {milliseconds(1), minutes(10)});
  s.add("move_rate", o.move_rate, "Bytes per second that a load or store may count on.", {1'000'000, ~size_t(0)});
  s.add("breaker_open", o.breaker_open, "A node that failed is not asked again for so long.", {milliseconds(1), minutes(10)});
  return s;
}

}  // namespace millpond::client
