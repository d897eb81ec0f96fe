#include "base/reached.h"

#include "base/mutex.h"

namespace millpond {
namespace {
Mutex mutex;
std::map<std::string, uint64_t>& places() {
  static auto* counted = new std::map<std::string, uint64_t>;
  return *counted;
}
}  // namespace

void reached(const char* place) {
  Lock lock(mutex);
  ++places()[place];
}

std::map<std::string, uint64_t> reached_places() {
  Lock lock(mutex);
  return places();
}
}  // namespace millpond
