// Tells people on stderr how a transfer goes: a bar that renews itself on a terminal, else a line
// every few seconds. Log lines and progress may come from different threads.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <mutex>
#include <string>

#include "sftbench/huggingface/fetch.h"

namespace sftbench {

class FetchView {
 public:
  FetchView(std::ostream& out, bool shown, bool terminal)
      : out_(out), shown_(shown), terminal_(terminal) {}

  void show(const FetchProgress& progress);
  // Only "<what> 1.2 GiB of 2.4 GiB" with a rate, for work that is no transfer.
  void show(const std::string& what, uint64_t done_bytes, uint64_t total_bytes);
  void log(FetchLog level, const std::string& text);
  void finish();  // leaves the terminal's last line as it is

 private:
  void line(const std::string& text, uint64_t done_bytes, uint64_t total_bytes, bool last);
  std::string rate_and_rest(uint64_t done_bytes, uint64_t total_bytes, double now_s);

  std::ostream& out_;
  bool shown_;
  bool terminal_;
  std::mutex mutex_;
  bool bar_stands_ = false;
  double shown_s_ = -1;
  double begin_s_ = -1;  // of the first call, when begin_bytes_ were there already
  uint64_t begin_bytes_ = 0;
};

}  // namespace sftbench
