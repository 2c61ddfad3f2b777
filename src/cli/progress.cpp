#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <ostream>
#include <utility>

#include "sftbench/base/clock.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/measure/proc.h"
#include "sftbench/measure/stop_rules.h"

namespace sftbench {
namespace {

constexpr double kTerminalPeriodSeconds = 0.1;
constexpr double kLinePeriodSeconds = 5;
constexpr int kBarColumns = 24;

std::string formatted(const char* format, double value) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

}  // namespace

Progress::Progress(std::ostream& out, bool terminal, const TrainingJob& job, Peak peak)
    : out_(out),
      terminal_(terminal),
      devices_(static_cast<int>(std::max<int64_t>(1, job.device.ranks))),
      stop_after_s_(job.batches.stop_after_seconds),
      peak_of_(std::move(peak)),
      made_s_(steady_seconds()),
      shown_s_(made_s_) {
  // The automatic rule ends most runs after its two phases; steps that are long take longer.
  if (job.batches.auto_stop_method == kAutoStopMethod) stop_after_s_ = 180;
}

void Progress::phase(const std::string& text) {
  show_waiting(text);
}

void Progress::on_load(const LoadEvent& load) {
  show_waiting(load_text(load));
}

// Lines that are appended begin when it takes long.
void Progress::show_waiting(const std::string& text) {
  const double now_s = steady_seconds();
  const std::string line = text + ", " + duration_text(now_s - made_s_);
  if (terminal_) {
    open_line_ = OpenLine::kWaiting;
    out_ << "\r" << cut_to(terminal_line(line), terminal_columns(STDERR_FILENO)) << "\x1b[K"
         << std::flush;
  } else if (now_s - shown_s_ >= kLinePeriodSeconds) {
    shown_s_ = now_s;
    out_ << terminal_line(line) << "\n" << std::flush;
  }
}

void Progress::on_train_begin(const TrainBegin& begin) {
  show_waiting("training step " + std::to_string(begin.resumed_step + 1) + " of " +
               std::to_string(begin.total_steps));
  begin_ = begin;
  span_ = {};
  shown_ = false;
  peak_ = peak_of_(begin.compute_dtype);
}

void Progress::on_step_end(const StepEvent& event, TrainControl&) {
  if (span_.steps.empty()) {
    span_.begin_s = event.begin_s;
  } else {
    span_.pause_s += event.pause_s;
  }
  span_.end_s = event.end_s;
  span_.steps.assign(1, event);  // the last one alone is kept
  span_.tokens += event.tokens;
  span_.attention_flops += event.attention_flops;
  const double period_s = terminal_ ? kTerminalPeriodSeconds : kLinePeriodSeconds;
  if (shown_ && event.step < begin_.total_steps && event.end_s - shown_s_ < period_s) return;
  shown_ = true;
  shown_s_ = event.end_s;
  if (terminal_) {
    open_line_ = OpenLine::kBar;
    const std::string text = line(event);
    const std::string with_bar = bar() + " " + text;
    // A line that the terminal breaks could not be written over.
    const size_t columns = terminal_columns(STDERR_FILENO);
    const bool fits = columns == 0 || with_bar.size() < columns;
    out_ << "\r" << cut_to(fits ? with_bar : text, columns) << "\x1b[K" << std::flush;
  } else {
    out_ << line(event) << "\n" << std::flush;
  }
}

void Progress::on_train_end(const TrainEnd&) {
  if (open_line_ == OpenLine::kBar) out_ << "\n" << std::flush;
  open_line_ = OpenLine::kNone;
}

void Progress::clear_line() {
  if (open_line_ == OpenLine::kNone) return;
  out_ << "\r\x1b[K" << std::flush;
  open_line_ = OpenLine::kNone;
}

// What is said of a run that ended before its time begins on a line of its own.
Progress::~Progress() {
  if (open_line_ == OpenLine::kBar) out_ << "\n" << std::flush;
  if (open_line_ == OpenLine::kWaiting) clear_line();
}

double Progress::seconds_left(const StepEvent& event) const {
  const double elapsed_s = span_.seconds();
  const auto done = static_cast<double>(event.step - begin_.resumed_step);
  const auto left = static_cast<double>(begin_.total_steps - event.step);
  const double left_s = elapsed_s / done * left;
  if (stop_after_s_ <= 0) return left_s;
  return std::min(left_s, std::max(0.0, stop_after_s_ - elapsed_s));
}

std::string Progress::bar() const {
  const StepEvent& event = span_.steps.front();
  const double by_steps =
      static_cast<double>(event.step) / std::max(1.0, static_cast<double>(begin_.total_steps));
  const double by_time = stop_after_s_ > 0 ? span_.seconds() / stop_after_s_ : 0;
  const double done = std::clamp(std::max(by_steps, by_time), 0.0, 1.0);
  const int filled = static_cast<int>(done * kBarColumns);
  return "[" + std::string(static_cast<size_t>(filled), '#') +
         std::string(static_cast<size_t>(kBarColumns - filled), '.') + "]";
}

std::string Progress::line(const StepEvent& event) const {
  std::string text = "step " + std::to_string(event.step) + "/" +
                     std::to_string(begin_.total_steps) + formatted(", loss %.4g", event.loss);
  if (span_.seconds() > 0 && span_.tokens.padded > 0) {
    const Json mfu = model_flops_utilization(begin_, span_, devices_, peak_);
    text += ", " + quantity_text(static_cast<double>(span_.tokens.padded) / span_.seconds()) +
            " tokens/s, ";
    text += mfu["value"].is_null()
                ? quantity_text(mfu["achieved_flops_per_device"]) + "FLOP/s per device"
                : formatted("MFU %.1f %%", 100 * mfu["value"].get<double>());
  }
  const double bytes = event.device_allocated_bytes > 0
                           ? static_cast<double>(event.device_allocated_bytes)
                           : static_cast<double>(resident_bytes());
  return text + ", " + bytes_text(bytes) + ", " + duration_text(seconds_left(event)) + " left";
}

}  // namespace sftbench
