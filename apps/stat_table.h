// The master's state for a person.
#pragma once
#include <string>
#include <string_view>

#include "base/status.h"

namespace millpond::apps {
// `json` as Pool::stat_json answers it (docs/design/master.md). Members that it does not know are skipped, so that a newer
// master can be looked at. corrupt: not such a text.
Result<std::string> stat_table(std::string_view json);
// Bytes of memory of the largest node that lives; 0: none, or not such a text.
uint64_t largest_node(std::string_view json);
}  // namespace millpond::apps
