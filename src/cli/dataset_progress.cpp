#include "cli/dataset_progress.h"

#include <atomic>
#include <csignal>
#include <ostream>
#include <utility>

#include "cli/progress.h"
#include "sftbench/base/clock.h"

namespace sftbench {
namespace {

constexpr double kTerminalPeriodSeconds = 0.1;
constexpr double kLinePeriodSeconds = 3;
constexpr int kBarColumns = 24;

std::atomic<bool> interrupted = false;
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler may set it");

void note_interrupt(int) {
  interrupted = 1;
}

}  // namespace

DatasetProgress::DatasetProgress(std::ostream& out, bool terminal, std::string what, int64_t total,
                                 int64_t already, std::function<double()> clock)
    : out_(out),
      terminal_(terminal),
      what_(std::move(what)),
      total_(total),
      already_(already),
      clock_(clock ? std::move(clock) : steady_seconds),
      begin_s_(clock_()),
      shown_s_(begin_s_) {}

DatasetProgress::~DatasetProgress() {
  if (open_) out_ << "\n" << std::flush;
}

void DatasetProgress::update(int64_t done) {
  const double now_s = clock_();
  const double period_s = terminal_ ? kTerminalPeriodSeconds : kLinePeriodSeconds;
  const bool end_of_bar = open_ && done == total_;
  if (now_s - shown_s_ < period_s && !end_of_bar) return;
  shown_s_ = now_s;
  const std::string text = line(done, now_s - begin_s_);
  if (!terminal_) {
    out_ << text << "\n" << std::flush;
    return;
  }
  const auto filled = static_cast<size_t>(done * kBarColumns / total_);
  out_ << "\r[" << std::string(filled, '#') << std::string(kBarColumns - filled, '.') << "] "
       << text << "\x1b[K" << std::flush;
  open_ = true;
}

std::string DatasetProgress::line(int64_t done, double elapsed_s) const {
  std::string text = std::to_string(done) + " of " + std::to_string(total_) + " " + what_;
  const auto news = static_cast<double>(done - already_);
  if (news <= 0 || elapsed_s <= 0) return text;
  const double left_s = elapsed_s / news * static_cast<double>(total_ - done);
  return text + ", " + quantity_text(news / elapsed_s) + "/s, " + duration_text(left_s) + " left";
}

InterruptNote::InterruptNote() {
  interrupted = false;
  struct sigaction action = {};
  action.sa_handler = note_interrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

InterruptNote::~InterruptNote() {
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

void InterruptNote::throw_if_interrupted() const {
  if (interrupted) throw DatasetInterrupted();
}

}  // namespace sftbench
