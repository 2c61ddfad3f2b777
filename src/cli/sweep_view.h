// What people see of a sweep on stderr. On a terminal: a bar for the whole, a line for each running
// measurement, renewed in place below the lines of what has ended. Else: one line per event.
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "cli/track_options.h"
#include "sftbench/sweep/sweep.h"

namespace sftbench {

// What tells one cell of a space from another: "batch_size=2 model_max_length=512".
std::string cell_label(const Space& space, const Cell& cell);

// "valid    batch_size=2: 281 tokens/s, 1.00 GiB, 0:17", "failed   batch_size=4: OOM_HOST: ...".
std::string outcome_line(const std::string& label, const Outcome& outcome);

class SweepView : public SweepObserver {
 public:
  using Label = std::function<std::string(const Cell&)>;

  // `live`: `out` is a terminal that understands ANSI's cursor movements.
  // `claims`: how cells are claimed, for the first line.
  SweepView(std::ostream& out, bool live, Label label, std::string claims = {});
  ~SweepView() override { close(); }

  void close() { erase(); }  // takes the live lines away

  void on_begin(const SweepState& state) override;
  void on_start(const Cell& cell, const Share& share) override;
  void on_warning(const Cell& cell, const std::string& warning) override;
  void on_settled(const Cell& cell, const Outcome& outcome) override;
  void on_sample(const Cell& cell, const Outcome& outcome) override;
  void on_retry(const Cell& cell, const Outcome& outcome) override;
  void on_busy(const Cell& cell, const std::string& holder) override;
  void on_lost(const Cell& cell, const std::string& why) override;
  void on_note(const std::string& text) override;
  void on_tick(const SweepState& state) override;
  double tick_s() const override { return live_ ? 0.5 : 3600; }

  // The lines that a terminal shows of `state`, cut to its size.
  std::vector<std::string> live_lines(const SweepState& state, int columns, int rows) const;

 private:
  void say(const std::string& line);  // above the live lines
  void erase();
  void say_troubles(const Outcome& outcome);

  std::ostream& out_;
  bool live_;
  Label label_;
  std::string claims_;
  TrackerTroubles troubles_;
  const SweepState* state_ = nullptr;
  double drawn_s_ = 0;
  size_t drawn_lines_ = 0;
};

}  // namespace sftbench
