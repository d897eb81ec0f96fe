// Ends a daemon when it is asked to. Make one before the first thread starts: threads inherit what it blocks.
#pragma once

namespace millpond::apps {

class Signals {
 public:
  Signals();          // SIGINT and SIGTERM wait for wait(); SIGPIPE is ignored
  int wait();         // answers the signal; a second one ends the process at once
};

}  // namespace millpond::apps
