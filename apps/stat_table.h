// The master's state for a person.
#pragma once
#include <string>
#include <string_view>

#include "base/status.h"

namespace millpond::apps {
// `json` as Pool::stat_json answers it (docs/design/master.md). Members that it does not know are skipped, so that a newer
// master can be looked at. corrupt: not such a text.
Result<std::string> stat_table(std::string_view json);
}  // namespace millpond::apps
