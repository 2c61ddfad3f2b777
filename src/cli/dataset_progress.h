// How far a dataset is, and how its making is ended early: a bar that renews itself on a terminal,
// else a line every few seconds; Ctrl-C and SIGTERM as an exception, so that what was begun is
// cleared away by those who began it.
#pragma once

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>

namespace sftbench {

class DatasetProgress {
 public:
  // `what` stands behind the number: "entries written". `already`: entries that were done before.
  // `clock` gives seconds.
  DatasetProgress(std::ostream& out, bool terminal, std::string what, int64_t total,
                  int64_t already = 0, std::function<double()> clock = {});
  ~DatasetProgress();  // leaves the cursor on a line of its own
  DatasetProgress(const DatasetProgress&) = delete;
  DatasetProgress& operator=(const DatasetProgress&) = delete;

  // "1024 of 4096 entries written, 1.20 k/s, 0:03 left", unless it was shown a moment ago.
  void update(int64_t done);

 private:
  std::string line(int64_t done, double elapsed_s) const;

  std::ostream& out_;
  bool terminal_;
  std::string what_;
  int64_t total_;
  int64_t already_;
  std::function<double()> clock_;
  double begin_s_;
  double shown_s_;
  bool open_ = false;  // a line on a terminal that is not ended
};

class DatasetInterrupted : public std::runtime_error {
 public:
  DatasetInterrupted() : std::runtime_error("interrupted") {}
};

// While one lives, the first SIGINT or SIGTERM is only noted; a second one ends the process. At
// most one at a time.
class InterruptNote {
 public:
  InterruptNote();
  ~InterruptNote();
  InterruptNote(const InterruptNote&) = delete;
  InterruptNote& operator=(const InterruptNote&) = delete;

  void throw_if_interrupted() const;
};

}  // namespace sftbench
