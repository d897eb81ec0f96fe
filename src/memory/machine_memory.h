// How much memory this process may still take: what the machine says, and what its control groups allow.
#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace millpond::memory {

struct MachineMemory {
  Bytes available;                       // MemAvailable of /proc/meminfo; all ones when unknown
  std::optional<Bytes> group_limit;      // the tightest of our control groups (v1 and v2); nullopt: none, or unknown
  uint64_t huge_pages_free = 0;          // of the pool, minus reserved ones
  Bytes huge_page_size = MiB(2);
  Bytes limit() const { return group_limit ? std::min(available, *group_limit) : available; }
};

MachineMemory machine_memory();          // reads /proc and /sys

// The pure half. Fields of /proc/meminfo that are missing keep their defaults.
MachineMemory parse_meminfo(std::string_view text);
// A number of a control group file; nullopt for "max" and for the huge number with which v1 says "none".
std::optional<Bytes> parse_group_limit(std::string_view text);

}  // namespace millpond::memory
