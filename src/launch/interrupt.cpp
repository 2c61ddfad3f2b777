#include "sftbench/launch/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <cmath>
#include <ctime>
#include <string_view>

namespace sftbench {
namespace {

sigset_t interrupt_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

// The watcher's destructor wakes its own thread with this one.
constexpr int kWakeSignal = SIGUSR1;

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
}

}  // namespace

InterruptWatcher::InterruptWatcher(double grace_s) : grace_s_(grace_s) {
  sigset_t set = interrupt_signals();
  sigaddset(&set, kWakeSignal);
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  thread_ = std::thread([this] { watch(); });
}

InterruptWatcher::~InterruptWatcher() {
  closing_ = true;
  pthread_kill(thread_.native_handle(), kWakeSignal);
  thread_.join();
  const sigset_t set = interrupt_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void InterruptWatcher::remove_when_interrupted(const std::filesystem::path& file) {
  const std::lock_guard lock(mutex_);
  files_.push_back(file);
}

void InterruptWatcher::remove_files() {
  const std::lock_guard lock(mutex_);
  std::error_code ignored;
  for (auto file = files_.rbegin(); file != files_.rend(); ++file) {
    std::filesystem::remove(*file, ignored);
  }
  files_.clear();
}

void InterruptWatcher::watch() {
  sigset_t set = interrupt_signals();
  sigaddset(&set, kWakeSignal);
  int signal = 0;
  while (sigwait(&set, &signal) == 0 && !closing_) {
    if (signal == kWakeSignal) continue;
    if (requested_.exchange(true) || !graceful_) end_process();
    say("\nsftbench: interrupted; ending at the next micro-batch (once more to end at once)\n");
    const timespec grace = {static_cast<time_t>(grace_s_),
                            static_cast<long>(std::fmod(grace_s_, 1.0) * 1e9)};
    // Either the loop ends in time and this object is closed, or the process ends here.
    if (sigtimedwait(&set, nullptr, &grace) != kWakeSignal || !closing_) end_process();
    return;
  }
}

void InterruptWatcher::end_process() {
  remove_files();
  say("\nsftbench: interrupted; nothing was kept\n");
  _exit(kInterruptedExitCode);
}

}  // namespace sftbench
