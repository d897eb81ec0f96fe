// The kinds of frames. A number, once released, means the same for ever.
#pragma once
#include <cstdint>
#include <string_view>

namespace millpond::wire {

enum class Kind : uint16_t {
  none = 0,
  hello = 1, hello_reply = 2, hello_proof = 3, hello_done = 4,
  failure = 5,
  lookup = 16, lookup_reply = 17, remove = 18, remove_reply = 19, remove_all = 20, remove_all_reply = 21,
  open_namespace = 22, open_namespace_reply = 23, report = 24, report_reply = 25, explain = 26, explain_reply = 27,
  stat = 28, stat_reply = 29,
  join = 48, join_reply = 49, heartbeat = 50, heartbeat_reply = 51, advertise = 52, advertise_reply = 53,
  leave = 54, leave_reply = 55,
  apply_removals = 64, apply_removals_reply = 65, touch = 66, touch_reply = 67,
  read = 80, read_reply = 81, store = 82, store_reply = 83, reserve = 84, reserve_reply = 85,
  commit = 86, commit_reply = 87, recheck = 88, recheck_reply = 89,
};

std::string_view name(Kind kind);   // "lookup_reply"; "unknown"

}  // namespace millpond::wire
