// What the machine can do without us, measured in the same run: the pool's figures mean little alone.
#pragma once
#include "base/bytes.h"
#include "base/status.h"
#include "measure/rate.h"

namespace millpond::measure {

// Copies blocks out of `working_set` bytes of memory (faulted before), each worker its own.
Rate copy_memory(Bytes block, size_t workers, Bytes working_set, Duration limit);

// Asks for a block with one byte over a TCP connection on loopback and reads it, each worker a connection and a
// sending thread of its own. unavailable: no sockets to be had.
Result<Rate> read_socket(Bytes block, size_t workers, Bytes working_set, Duration limit);

}  // namespace millpond::measure
