#include "cli/series_view.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>

#include "cli/progress.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/terminal_text.h"

namespace sftbench {
namespace {

constexpr double kLookSeconds = 0.1;  // Ctrl-C and the terminal are minded this often

class SeriesView {
 public:
  SeriesView(std::ostream& out, SeriesDisplay display) : out_(out), display_(display) {}

  void show(const SeriesProgress& progress, double elapsed_s) {
    if (display_ == SeriesDisplay::kNothing) return;
    for (; said_ < progress.endings.size(); ++said_) {
      const std::string& ending = progress.endings[said_];
      line("run " + std::to_string(said_ + 1) + "/" + std::to_string(progress.runs) + ": " +
           ending.substr(0, ending.find('\n')));
    }
    if (display_ == SeriesDisplay::kTerminal) {
      out_ << "\r"
           << cut_to(terminal_line(series_line(progress, elapsed_s)),
                     terminal_columns(STDERR_FILENO))
           << "\x1b[K" << std::flush;
    }
  }

  void close() {
    if (display_ == SeriesDisplay::kTerminal) out_ << "\r\x1b[K" << std::flush;
  }

 private:
  void line(const std::string& text) {
    out_ << (display_ == SeriesDisplay::kTerminal ? "\r\x1b[K" : "") << terminal_line(text) << "\n"
         << std::flush;
  }

  std::ostream& out_;
  SeriesDisplay display_;
  size_t said_ = 0;
};

}  // namespace

std::string series_line(const SeriesProgress& progress, double elapsed_s) {
  const Heartbeat& heartbeat = progress.heartbeat;
  std::string text =
      "run " + std::to_string(progress.run) + "/" + std::to_string(progress.runs) + ", ";
  if (heartbeat.total_steps == 0) {
    text += heartbeat.phase;
  } else {
    text += "step " + std::to_string(heartbeat.step) + "/" + std::to_string(heartbeat.total_steps);
  }
  if (heartbeat.step > 0) {
    std::array<char, 32> loss{};
    std::snprintf(loss.data(), loss.size(), ", loss %.4g, ", heartbeat.loss);
    text += loss.data() + quantity_text(heartbeat.tokens_per_s) + " tokens/s";
  }
  return text + ", " + duration_text(elapsed_s);
}

Measurement measure_series(ChildSpec spec, std::ostream& out, SeriesDisplay display,
                           const std::function<bool()>& interrupted) {
  RunSeries series(std::move(spec));
  SeriesView view(out, display);
  bool asked = false;
  while (!series.advance()) {
    view.show(series.progress(), series.elapsed_s());
    if (interrupted() && !std::exchange(asked, true)) {
      series.end(ReasonCode::kKilled, "interrupted");
    }
    std::vector<pollfd> fds;
    series.add_poll_fds(fds);
    const double wait_s = std::min(kLookSeconds, series.deadline_s() - steady_seconds());
    ::poll(fds.data(), fds.size(), static_cast<int>(std::ceil(1000 * std::max(0.0, wait_s))));
  }
  view.show(series.progress(), series.elapsed_s());
  view.close();
  return series.result();
}

}  // namespace sftbench
