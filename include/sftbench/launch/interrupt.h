// Ctrl-C and SIGTERM. A thread waits for the signal, so that what it does then is ordinary code:
//   before and after training  the process ends at once;
//   while a job trains         the step loop is asked to end at its next micro-batch, and the
//                              process ends at once after a second signal or a grace period.
// Either way what was registered for removal is removed and the exit status is 130. Atomic files
// need no registration: until they are whole they have no name.
#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <thread>
#include <vector>

namespace sftbench {

inline constexpr int kInterruptedExitCode = 130;

class InterruptWatcher {
 public:
  // Blocks both signals in the calling thread and all that it starts: make it before any other
  // thread. At most one at a time.
  explicit InterruptWatcher(double grace_s = 5);
  ~InterruptWatcher();
  InterruptWatcher(const InterruptWatcher&) = delete;
  InterruptWatcher& operator=(const InterruptWatcher&) = delete;

  bool requested() const { return requested_; }

  // While true, the first signal asks instead of ending. Whoever asks requested() says so.
  void set_graceful(bool graceful) { graceful_ = graceful; }

  // A file, or a folder if it is empty then. The last that was named goes first.
  void remove_when_interrupted(const std::filesystem::path& file);
  void remove_files();  // those; for the graceful end

 private:
  void watch();
  [[noreturn]] void end_process();

  double grace_s_;
  std::atomic<bool> requested_ = false;
  std::atomic<bool> graceful_ = false;
  std::atomic<bool> closing_ = false;
  std::mutex mutex_;
  std::vector<std::filesystem::path> files_;
  std::thread thread_;
};

}  // namespace sftbench
