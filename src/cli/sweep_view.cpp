#include "cli/sweep_view.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <ostream>
#include <utility>

#include "cli/progress.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/base/text.h"
#include "sftbench/measure/measured_properties.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kRedrawPeriodSeconds = 0.1;
constexpr int kBarColumns = 24;

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

TerminalSize terminal_size() {
  winsize size = {};
  if (::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  return {size.ws_col, size.ws_row};
}

std::string number_text(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string padded(std::string_view text, size_t columns) {
  std::string line(text);
  return line + std::string(columns > line.size() ? columns - line.size() : 0, ' ');
}

std::string counts_text(const SweepState& state) {
  std::vector<std::string> parts;
  for (const Status status : {Status::kValid, Status::kInvalid, Status::kFailed}) {
    parts.push_back(std::to_string(state.settled(status)) + " " + std::string(to_string(status)));
  }
  if (state.unread > 0) parts.push_back(std::to_string(state.unread) + " not read yet");
  if (state.retries > 0) parts.push_back(std::to_string(state.retries) + " to be tried again");
  if (state.busy > 0) parts.push_back(std::to_string(state.busy) + " in other sweeps");
  return join(parts, " · ");
}

std::string bar(double done) {
  const auto filled = static_cast<size_t>(std::clamp(done, 0.0, 1.0) * kBarColumns);
  return "[" + std::string(filled, '#') + std::string(kBarColumns - filled, '.') + "]";
}

std::string overall_line(const SweepState& state) {
  const auto done = static_cast<double>(state.settled());
  std::string line = bar(done / std::max(1.0, static_cast<double>(state.cells_at_most))) + " " +
                     std::to_string(state.settled()) + "/" + std::to_string(state.cells_at_most) +
                     " · " + counts_text(state) + " · " + duration_text(state.elapsed_s);
  if (state.seconds_left) line += ", " + duration_text(*state.seconds_left) + " left";
  return line;
}

std::string running_line(const std::string& label, const RunningCell& running) {
  const Heartbeat& heartbeat = *running.heartbeat;
  std::string line = "  " + label + ": ";
  if (running.runs > 1) {
    line += "run " + std::to_string(running.run) + "/" + std::to_string(running.runs) + ", ";
  }
  if (heartbeat.total_steps == 0)
    return line + heartbeat.phase + ", " + duration_text(running.elapsed_s);
  line += "step " + std::to_string(heartbeat.step) + "/" + std::to_string(heartbeat.total_steps);
  if (heartbeat.step > 0) {
    line += ", loss " + number_text(heartbeat.loss) + ", " + quantity_text(heartbeat.tokens_per_s) +
            " tokens/s";
  }
  if (heartbeat.memory_bytes > 0) {
    line += ", " + bytes_text(static_cast<double>(heartbeat.memory_bytes));
  }
  return line + ", " + duration_text(running.elapsed_s);
}

// Cut by characters, not within one (UTF-8).
std::string cut(std::string line, int columns) {
  int shown = 0;
  for (size_t i = 0; i < line.size(); ++i) {
    const bool begins_character = (static_cast<unsigned char>(line[i]) & 0xC0) != 0x80;
    if (begins_character && ++shown > columns) {
      line.resize(i);
      break;
    }
  }
  return line;
}

// Of what the measurement recorded, what people compare first.
std::string figures(const Measurement& measurement) {
  std::vector<std::string> parts;
  for (const auto& [fraction, words] :
       {std::pair{"f_no_error", " ended well"}, std::pair{"f_gpu_oom", " out of GPU memory"},
        std::pair{"f_other_error", " with another error"}}) {
    const double value = measurement.measured.value(fraction, 0.0);
    if (value > 0) parts.push_back(number_text(100 * value) + " %" + words);
  }
  for (const char* rate : {"train_tokens_per_second", "dataset_tokens_per_second"}) {
    const auto found = measurement.measured.find(rate);
    if (found == measurement.measured.end() || !found->is_number()) continue;
    parts.push_back(quantity_text(found->get<double>()) + " tokens/s");
    break;
  }
  const Json memory = measurement.extra.value("memory_bytes", Json::object());
  for (const char* kind : {"device_peak_allocated", "host_peak_rss"}) {
    double peak = 0;
    for (const Json& rank : memory.value(kind, Json::array()))
      peak = std::max(peak, rank.get<double>());
    if (peak <= 0) continue;
    parts.push_back(bytes_text(peak));
    break;
  }
  const Json waited = measurement.extra.value("run_queue_wait_share", Json());
  if (!busy_machine_note(waited).empty()) {
    parts.push_back("machine busy (" + number_text(std::round(100 * waited.get<double>())) +
                    " % waited)");
  }
  return join(parts);
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

std::string devices_text(const Share& share) {
  if (!share.gpus.empty()) return " on " + join(share.gpus);
  if (share.cores.empty()) return "";
  std::vector<std::string> cores;
  for (const int core : share.cores) cores.push_back(std::to_string(core));
  return (cores.size() == 1 ? " on core " : " on cores ") + join(cores);
}

}  // namespace

std::string cell_label(const Space& space, const Cell& cell) {
  std::vector<std::string> parts;
  for (const Dimension& dimension : space.dimensions) {
    const std::string& name = dimension.property().identifier;
    if (dimension.size() == 1) continue;
    // An argument at its usual value is no input.
    const Json& inputs = cell.request.inputs;
    const Json& values = inputs.contains(name) ? inputs : cell.request.entity;
    parts.push_back(name + "=" + cell_text(values.at(name)));
  }
  if (space.experiments.size() > 1) parts.push_back(cell.request.experiment_id);
  if (parts.empty()) parts.push_back(cell.request.entity_id);
  if (cell.samples > 1) {
    parts.push_back("(" + std::to_string(cell.sample) + " of " + std::to_string(cell.samples) +
                    ")");
  }
  return join(parts, " ");
}

std::string outcome_line(const std::string& label, const Outcome& outcome) {
  std::string line = padded(to_string(outcome.status), 8) + " " + label;
  if (outcome.measurement == nullptr) return line + ": stands in the store";
  const Measurement& measurement = *outcome.measurement;
  if (measurement.reason) {
    line += ": " + std::string(to_string(measurement.reason->code)) + ": " +
            first_line(measurement.reason->message);
  } else if (const std::string text = figures(measurement); !text.empty()) {
    line += ": " + text;
  }
  return outcome.seconds > 0 ? line + ", " + duration_text(outcome.seconds) : line;
}

SweepView::SweepView(std::ostream& out, bool live, Label label, std::string claims)
    : out_(out), live_(live), label_(std::move(label)), claims_(std::move(claims)) {}

void SweepView::on_begin(const SweepState& state) {
  state_ = &state;
  say("sweep of " + counted(state.cells_at_most, "cell") +
      (claims_.empty() ? "" : ", claimed by " + claims_));
}

void SweepView::on_start(const Cell& cell, const Share& share) {
  if (!live_) say("start    " + label_(cell) + devices_text(share));
}

void SweepView::on_warning(const Cell& cell, const std::string& warning) {
  say("warning  " + label_(cell) + ": " + warning);
}

void SweepView::on_settled(const Cell& cell, const Outcome& outcome) {
  if (outcome.measurement == nullptr) return;  // thousands, when a sweep is resumed
  say("[" + std::to_string(state_->settled()) + "/" + std::to_string(state_->cells_at_most) + "] " +
      outcome_line(label_(cell), outcome));
  say_troubles(outcome);
}

void SweepView::on_sample(const Cell& cell, const Outcome& outcome) {
  say(outcome_line(label_(cell), outcome));
  say_troubles(outcome);
}

void SweepView::say_troubles(const Outcome& outcome) {
  if (outcome.measurement == nullptr) return;
  for (const std::string& trouble : troubles_.fresh(*outcome.measurement)) {
    say("warning  " + trouble + " (said once for all cells)");
  }
}

void SweepView::on_retry(const Cell& cell, const Outcome& outcome) {
  say(outcome_line(label_(cell), outcome) + "; will be tried again");
}

void SweepView::on_busy(const Cell& cell, const std::string& holder) {
  say("busy     " + label_(cell) + ": measured by " + holder + "; looked at again at the end");
}

void SweepView::on_lost(const Cell& cell, const std::string& why) {
  say("lost     " + label_(cell) + ": " + why + "; nothing was kept, looked at again at the end");
}

void SweepView::on_note(const std::string& text) {
  say(text);
}

void SweepView::on_tick(const SweepState& state) {
  state_ = &state;
  if (!live_ || steady_seconds() - drawn_s_ < kRedrawPeriodSeconds) return;
  erase();
  const TerminalSize size = terminal_size();
  const std::vector<std::string> lines = live_lines(state, size.columns - 1, size.rows - 1);
  for (const std::string& line : lines) out_ << line << "\n";
  out_ << std::flush;
  drawn_lines_ = lines.size();
  drawn_s_ = steady_seconds();
}

std::vector<std::string> SweepView::live_lines(const SweepState& state, int columns,
                                               int rows) const {
  std::vector<std::string> lines = {overall_line(state)};
  const size_t most = static_cast<size_t>(std::max(1, rows - 2));
  for (const RunningCell& running : state.running) {
    if (lines.size() > most) {
      lines.push_back("  ... and " + std::to_string(state.running.size() - most) + " more");
      break;
    }
    lines.push_back(running_line(label_(*running.cell), running));
  }
  for (std::string& line : lines) line = cut(terminal_line(line), columns);
  return lines;
}

void SweepView::say(const std::string& line) {
  erase();
  out_ << terminal_line(line) << "\n" << std::flush;
  drawn_s_ = 0;  // the live lines come back at the next tick
}

void SweepView::erase() {
  if (drawn_lines_ == 0) return;
  out_ << "\x1b[" << drawn_lines_ << "A\x1b[J";
  drawn_lines_ = 0;
}

}  // namespace sftbench
