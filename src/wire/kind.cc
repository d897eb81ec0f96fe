#include "wire/kind.h"

namespace millpond::wire {
std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::none: return "none";
    case Kind::hello: return "hello";
    case Kind::hello_reply: return "hello_reply";
    case Kind::hello_proof: return "hello_proof";
    case Kind::hello_done: return "hello_done";
    case Kind::failure: return "failure";
    case Kind::lookup: return "lookup";
    case Kind::lookup_reply: return "lookup_reply";
    case Kind::remove: return "remove";
    case Kind::remove_reply: return "remove_reply";
    case Kind::remove_all: return "remove_all";
    case Kind::remove_all_reply: return "remove_all_reply";
    case Kind::open_namespace: return "open_namespace";
    case Kind::open_namespace_reply: return "open_namespace_reply";
    case Kind::report: return "report";
    case Kind::report_reply: return "report_reply";
    case Kind::explain: return "explain";
    case Kind::explain_reply: return "explain_reply";
    case Kind::stat: return "stat";
    case Kind::stat_reply: return "stat_reply";
    case Kind::join: return "join";
    case Kind::join_reply: return "join_reply";
    case Kind::heartbeat: return "heartbeat";
    case Kind::heartbeat_reply: return "heartbeat_reply";
    case Kind::advertise: return "advertise";
    case Kind::advertise_reply: return "advertise_reply";
    case Kind::leave: return "leave";
    case Kind::leave_reply: return "leave_reply";
    case Kind::apply_removals: return "apply_removals";
    case Kind::apply_removals_reply: return "apply_removals_reply";
    case Kind::touch: return "touch";
    case Kind::touch_reply: return "touch_reply";
    case Kind::read: return "read";
    case Kind::read_reply: return "read_reply";
    case Kind::store: return "store";
    case Kind::store_reply: return "store_reply";
    case Kind::reserve: return "reserve";
    case Kind::reserve_reply: return "reserve_reply";
    case Kind::commit: return "commit";
    case Kind::commit_reply: return "commit_reply";
    case Kind::recheck: return "recheck";
    case Kind::recheck_reply: return "recheck_reply";
  }
  return "unknown";
}
}  // namespace millpond::wire
