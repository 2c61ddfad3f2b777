#include "sftbench/launch/interrupt.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <string_view>
#include <utility>

#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

sigset_t interrupt_signals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  return set;
}

constexpr double kTellLookSeconds = 0.05;  // at whether there is something to tell
// For the loop itself to tell it: launchers kill who is there a second after they have asked.
constexpr double kTellSeconds = 0.4;

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
  if (done_) return;
  const sigset_t set = interrupt_signals();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

void InterruptWatcher::set_last_words(LastWords words) {
  const std::lock_guard lock(mutex_);
  last_words_ = std::move(words);
}

void InterruptWatcher::set_parting_text(std::function<std::string()> text) {
  const std::lock_guard lock(mutex_);
  parting_text_ = std::move(text);
}

void InterruptWatcher::remove_when_interrupted(const std::filesystem::path& file) {
  const std::lock_guard lock(mutex_);
  files_.push_back(file);
}

void InterruptWatcher::forget(const std::filesystem::path& file) {
  const std::lock_guard lock(mutex_);
  files_.erase(std::remove(files_.begin(), files_.end(), file), files_.end());
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
    if (signal == kWakeSignal || done_) continue;
    if (requested_.exchange(true) || !graceful_) end_process();
    say("\nsftbench: interrupted; ending at the next micro-batch (once more to end at once)\n");
    // Either the loop ends in time and this object is closed, or the process ends here.
    if (!closed_in_time()) end_process();
    return;
  }
}

bool InterruptWatcher::closed_in_time() {
  sigset_t set = interrupt_signals();
  sigaddset(&set, kWakeSignal);
  double until_s = steady_seconds() + grace_s_;
  bool knows_more = false;
  while (steady_seconds() < until_s) {
    if (!knows_more && (knows_more = has_last_words())) {
      until_s = std::min(until_s, steady_seconds() + kTellSeconds);
    }
    const double slice_s = std::clamp(until_s - steady_seconds(), 0.001, kTellLookSeconds);
    const timespec slice = {0, static_cast<long>(slice_s * 1e9)};
    const int signal = sigtimedwait(&set, nullptr, &slice);
    if (signal == kWakeSignal && closing_) return true;
    if (signal == SIGINT || signal == SIGTERM) return false;
  }
  return false;
}

bool InterruptWatcher::has_last_words() {
  const std::lock_guard lock(mutex_);
  return last_words_.there_are && last_words_.there_are();
}

void InterruptWatcher::end_process() {
  std::string text = kNothingKept;
  {
    // Whoever takes them back meanwhile, because they are about to be invalid, waits for the end.
    const std::lock_guard lock(mutex_);
    if (last_words_.there_are && last_words_.there_are()) _exit(last_words_.say());
    if (parting_text_) text = parting_text_();
  }
  remove_files();
  say("\nsftbench: " + text + "\n");
  _exit(kInterruptedExitCode);
}

}  // namespace sftbench
