// MP_REACHED("stream gap"): a rare path says that it was visited, so that the simulator can name what no seed reached.
#pragma once
#include <cstdint>
#include <map>
#include <string>

namespace millpond {
void reached(const char* place);
std::map<std::string, uint64_t> reached_places();   // counts since start
}  // namespace millpond

#define MP_REACHED(place) ::millpond::reached(place)
