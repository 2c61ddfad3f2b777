// Ctrl-C and SIGTERM as something to poll for, next to everything else that a sweep waits for.
#pragma once

#include <signal.h>

namespace sftbench {

// Blocks both signals in this thread as long as it lives: make it before any other thread. fd()
// becomes readable at each signal (signalfd(2)). Children that this program starts have them
// unblocked again.
class InterruptSignals {
 public:
  InterruptSignals();
  ~InterruptSignals();
  InterruptSignals(const InterruptSignals&) = delete;
  InterruptSignals& operator=(const InterruptSignals&) = delete;

  int fd() const { return fd_; }

 private:
  sigset_t previous_;
  int fd_;
};

}  // namespace sftbench
