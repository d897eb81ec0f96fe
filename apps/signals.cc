#include "signals.h"

#include <csignal>

namespace millpond::apps {
namespace {
sigset_t ending() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}
}  // namespace

Signals::Signals() {
  sigset_t set = ending();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  signal(SIGPIPE, SIG_IGN);
}

int Signals::wait() {
  sigset_t set = ending();
  int signal = 0;
  sigwait(&set, &signal);
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  return signal;
}

}  // namespace millpond::apps
