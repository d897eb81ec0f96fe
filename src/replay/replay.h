// `millpond replay`: a trace against a running cluster, from files and addresses to figures.
#pragma once
#include "replay/options.h"
#include "replay/worker.h"

namespace millpond::replay {

// Reads the trace, runs the engine processes, prints the figures (stdout) or writes them where the options say.
// Exit status: 0; 1 a byte was wrong or the run failed (said on stderr); 2 bad options or trace; 3 no master, or an
// engine process died.
// REQUIRES: the process has no other thread (the engines are forked).
int run(const Options& options);

// Same with another cache in place of the pool.
int run(const Options& options, const CacheFactory& factory);

}  // namespace millpond::replay
