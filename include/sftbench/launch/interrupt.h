// Ctrl-C and SIGTERM. A thread waits for the signal, so that what it does then is ordinary code:
//   before and after training  the process ends at once;
//   while a job trains         the step loop is asked to end at its next micro-batch, and the
//                              process ends at once after a second signal or a grace period.
// Either way what was registered for removal is removed and the exit status is 130. Atomic files
// need no registration: until they are whole they have no name.
//
// A launcher that has seen one rank of a job end asks all others to end, too, and kills those that
// take their time: LastWords are then what is told of that rank, from the watcher's thread.
#pragma once

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace sftbench {

inline constexpr int kInterruptedExitCode = 130;
inline constexpr const char* kNothingKept = "interrupted; nothing was kept";

struct LastWords {
  // Asked while the grace period runs.
  std::function<bool()> there_are;
  // Says them, in place of the removal of files, and gives the process's exit status.
  std::function<int()> say;
};

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

  // All is told and kept, and the process is about to end: signals change neither that nor its exit
  // status any more.
  void set_done() { done_ = true; }

  // What has to be told instead, should there be something; {}: nothing any more. They may not call
  // this object.
  void set_last_words(LastWords words);

  // What is said at an end at once, asked for then. Without it: nothing was kept. It may not call
  // this object.
  void set_parting_text(std::function<std::string()> text);

  // A file, or a folder if it is empty then. The last that was named goes first.
  void remove_when_interrupted(const std::filesystem::path& file);
  void remove_files();                             // those; for the graceful end
  void forget(const std::filesystem::path& file);  // it is another process's business from now on

 private:
  void watch();
  bool closed_in_time();
  bool has_last_words();
  [[noreturn]] void end_process();

  double grace_s_;
  std::atomic<bool> requested_ = false;
  std::atomic<bool> graceful_ = false;
  std::atomic<bool> done_ = false;
  std::atomic<bool> closing_ = false;
  std::mutex mutex_;  // guards what follows
  LastWords last_words_;
  std::function<std::string()> parting_text_;
  std::vector<std::filesystem::path> files_;
  std::thread thread_;
};

}  // namespace sftbench
