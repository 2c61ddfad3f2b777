#include "sftbench/sweep/interrupt_signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace sftbench {

InterruptSignals::InterruptSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, &previous_);
  fd_ = ::signalfd(-1, &signals, SFD_NONBLOCK | SFD_CLOEXEC);
}

InterruptSignals::~InterruptSignals() {
  // Signals that nobody has read would end the process as soon as they are unblocked.
  signalfd_siginfo unread;
  while (::read(fd_, &unread, sizeof unread) > 0) continue;
  ::close(fd_);
  pthread_sigmask(SIG_SETMASK, &previous_, nullptr);
}

}  // namespace sftbench
