#include "transfer/connect.h"

#include <cstdlib>
#include <fstream>

#include "base/checksum.h"
#include "base/log.h"
#include "transfer/fallback_owner.h"
#include "transfer/shm_owner.h"
#include "transfer/tcp_owner.h"

namespace millpond::transfer {
namespace {

// No allowed way leads there: a miss for a reader, and a reason to choose another node for a writer.
class NoWay : public Owner {
 public:
  explicit NoWay(rpc::Runtime& runtime) : runtime_(runtime) {}
  void read(std::vector<ReadItem> items, Time, std::function<void(std::vector<ReadOutcome>)> done) override {
    runtime_.post([count = items.size(), done = std::move(done)] { done(std::vector<ReadOutcome>(count, {Code::unavailable, 0})); });
  }
  void write(std::vector<WriteItem> items, Time, bool, std::function<void(std::vector<WriteOutcome>)> done) override {
    runtime_.post([count = items.size(), done = std::move(done)] { done(std::vector<WriteOutcome>(count)); });
  }
  void recheck(std::vector<BlockId> ids, Time, std::function<void(std::vector<Code>)> done) override {
    runtime_.post([count = ids.size(), done = std::move(done)] { done(std::vector<Code>(count, Code::unavailable)); });
  }
  const char* transport() const override { return "none"; }

 private:
  rpc::Runtime& runtime_;
};

}  // namespace

Result<Transports> parse_transports(std::string_view text) {
  Transports chosen{false, false, false};
  for (size_t at = 0; at <= text.size();) {
    size_t comma = std::min(text.find(',', at), text.size());
    auto word = text.substr(at, comma - at);
    at = comma + 1;
    while (!word.empty() && word.front() == ' ') word.remove_prefix(1);
    while (!word.empty() && word.back() == ' ') word.remove_suffix(1);
    if (word == "local") chosen.local = true;
    else if (word == "shm") chosen.shm = true;
    else if (word == "tcp") chosen.tcp = true;
    else
      return error(Code::invalid, "unknown transport \"{}\" in \"{}\"; known are local, shm and tcp, separated by commas", word, text);
  }
  return chosen;
}

Transports transports_from_environment() {
  const char* text = std::getenv("MILLPOND_TRANSPORTS");
  if (!text || !*text) return {};
  auto parsed = parse_transports(text);
  if (parsed) return *parsed;
  static bool logged = [&] {
    log::warn("MILLPOND_TRANSPORTS is ignored, all are used: {}", parsed.error().message());
    return true;
  }();
  (void)logged;
  return {};
}

uint64_t this_host_id() {
  static const uint64_t id = [] {
    std::ifstream file("/proc/sys/kernel/random/boot_id");
    std::string boot;
    if (!std::getline(file, boot) || boot.empty()) return uint64_t(0);   // unknown: never equal to another
    return hash64(as_bytes(boot));
  }();
  return id;
}

std::shared_ptr<Owner> connect(const Target& target, Transports allowed, std::shared_ptr<Owner> local, rpc::Runtime& runtime,
                               Metrics& metrics) {
  if (local && allowed.local) return local;
  bool same_host = target.host_id != 0 && target.host_id == this_host_id() && !target.local_socket.empty();
  std::shared_ptr<Owner> tcp, shm;
  if (allowed.tcp && !target.address.empty()) tcp = tcp_owner({target.address, target.node_id, target.node_epoch}, runtime, metrics);
  if (allowed.shm && same_host) shm = shm_owner({"unix:" + target.local_socket, target.node_id, target.node_epoch}, runtime, metrics);
  if (shm && tcp) return fallback_owner(shm, tcp, runtime, metrics);
  if (shm) return shm;
  if (tcp) return tcp;
  return std::make_shared<NoWay>(runtime);
}

}  // namespace millpond::transfer
