#include "cli/fetch_view.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ostream>

#include "cli/progress.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

constexpr double kFetchTerminalPeriodSeconds = 0.1;
constexpr double kFetchLinePeriodSeconds = 5;
constexpr size_t kFetchBarColumns = 24;
constexpr size_t kNameColumns = 32;

spdlog::level::level_enum level_of(FetchLog level) {
  switch (level) {
    case FetchLog::kTrace:
      return spdlog::level::trace;
    case FetchLog::kInfo:
      return spdlog::level::info;
    case FetchLog::kWarning:
      return spdlog::level::warn;
  }
  return spdlog::level::warn;
}

std::string bar(uint64_t done_bytes, uint64_t total_bytes) {
  const double part =
      total_bytes == 0 ? 1 : static_cast<double>(done_bytes) / static_cast<double>(total_bytes);
  const auto filled = static_cast<size_t>(std::clamp(part, 0.0, 1.0) * kFetchBarColumns);
  return "[" + std::string(filled, '#') + std::string(kFetchBarColumns - filled, '.') + "] ";
}

std::string of_total(uint64_t done_bytes, uint64_t total_bytes) {
  return bytes_text(static_cast<double>(done_bytes)) + " of " +
         bytes_text(static_cast<double>(total_bytes));
}

}  // namespace

void FetchView::show(const FetchProgress& progress) {
  const std::lock_guard lock(mutex_);
  std::string text = of_total(progress.done_bytes, progress.total_bytes) + ", " +
                     std::to_string(progress.done_files) + "/" +
                     counted(progress.total_files, "file");
  const bool last = progress.done_files == progress.total_files;
  if (terminal_ && !last) text += ", " + terminal_line(progress.now).substr(0, kNameColumns);
  line(text, progress.done_bytes, progress.total_bytes, last);
}

void FetchView::show(const std::string& what, uint64_t done_bytes, uint64_t total_bytes) {
  const std::lock_guard lock(mutex_);
  line(what + " " + of_total(done_bytes, total_bytes), done_bytes, total_bytes,
       done_bytes == total_bytes);
}

void FetchView::line(const std::string& text, uint64_t done_bytes, uint64_t total_bytes,
                     bool last) {
  if (!shown_) return;
  const double now_s = steady_seconds();
  if (begin_s_ < 0) {
    begin_s_ = shown_s_ = now_s;
    begin_bytes_ = done_bytes;
    if (!last) return;  // no rate yet
  }
  const double period_s = terminal_ ? kFetchTerminalPeriodSeconds : kFetchLinePeriodSeconds;
  if (now_s - shown_s_ < period_s && !(last && terminal_)) return;
  shown_s_ = now_s;
  const std::string rest = rate_and_rest(done_bytes, total_bytes, now_s);
  if (terminal_) {
    out_ << "\r" << bar(done_bytes, total_bytes) << text << rest << "\x1b[K" << std::flush;
    bar_stands_ = true;
  } else {
    out_ << text << rest << "\n" << std::flush;
  }
}

std::string FetchView::rate_and_rest(uint64_t done_bytes, uint64_t total_bytes, double now_s) {
  if (done_bytes <= begin_bytes_ || now_s <= begin_s_) return {};
  const double bytes_per_s = static_cast<double>(done_bytes - begin_bytes_) / (now_s - begin_s_);
  const double left_bytes = static_cast<double>(total_bytes - std::min(done_bytes, total_bytes));
  return ", " + bytes_text(bytes_per_s) + "/s, " + duration_text(left_bytes / bytes_per_s) +
         " left";
}

void FetchView::log(FetchLog level, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (bar_stands_) out_ << "\r\x1b[K" << std::flush;
  bar_stands_ = false;
  spdlog::log(level_of(level), "{}", text);
}

void FetchView::finish() {
  const std::lock_guard lock(mutex_);
  if (bar_stands_) out_ << "\n" << std::flush;
  bar_stands_ = false;
}

}  // namespace sftbench
