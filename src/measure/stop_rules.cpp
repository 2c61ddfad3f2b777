#include "sftbench/measure/stop_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr double kWarmupSeconds = 60;
constexpr double kStableSeconds = 120;
constexpr int64_t kStableSteps = 10;
constexpr int64_t kFewestSteps = 8;  // that say how far steps lie apart

// Student's t that holds 95 %, by Cornish and Fisher: within 1 % from 7 degrees on.
double student_t95(double degrees) {
  constexpr double z = 1.959963984540054;
  const double z3 = z * z * z, z5 = z3 * z * z;
  return z + (z3 + z) / (4 * degrees) + (5 * z5 + 16 * z3 + 3 * z) / (96 * degrees * degrees);
}

// Half of the interval that holds sum(a) / sum(b) with 95 %, over that ratio. Steps without a token
// leave nothing to divide by: infinity.
double ratio_error(const std::vector<double>& a, const std::vector<double>& b) {
  const auto n = static_cast<double>(a.size());
  const double sum_a = std::accumulate(a.begin(), a.end(), 0.0);
  const double sum_b = std::accumulate(b.begin(), b.end(), 0.0);
  if (sum_a <= 0 || sum_b <= 0) return std::numeric_limits<double>::infinity();
  double squares = 0, products = 0, before = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double off = a[i] - sum_a / sum_b * b[i];
    squares += off * off;
    products += off * before;
    before = off;
  }
  // A drift of the machine looks like correlation, too, and must not pass for precision.
  const double r = squares > 0 ? std::clamp(products / squares, 0.0, 0.99) : 0;
  const double independent = std::max(2.0, n * (1 - r) / (1 + r));
  const double deviation = std::sqrt(squares / (n - 1)) / (sum_a / n);
  return student_t95(std::max(2.0, independent - 1)) * deviation / std::sqrt(independent);
}

}  // namespace

StopRules::StopRules(double stop_after_s, const std::string& auto_stop_method,
                     std::function<void()> on_stable_begin, double known_percent)
    : stop_after_s_(stop_after_s),
      automatic_(!auto_stop_method.empty()),
      known_percent_(known_percent),
      on_stable_begin_(std::move(on_stable_begin)) {
  if (automatic_ && auto_stop_method != kAutoStopMethod) {
    throw InputError({{.file = {},
                       .line = 0,
                       .key = "auto_stop_method",
                       .message = "unknown method '" + auto_stop_method + "'",
                       .expected = std::string(kAutoStopMethod) + " or none",
                       .nearest = nearest_spelling(auto_stop_method, {kAutoStopMethod})}});
  }
}

// A warm-up of one step asks for memory; that of auto_stop_method lasts a minute.
bool StopRules::warm(const StepEvent& event) const {
  return !automatic_ || event.end_s - begin_s_ >= kWarmupSeconds;
}

void StopRules::look_at_rate(const StepEvent& event, TrainControl& control) {
  seconds_.push_back(event.end_s - event.begin_s);
  tokens_.push_back(static_cast<double>(event.tokens.dataset));
  if (stable_steps_ < kFewestSteps) return;
  const double within = 100 * ratio_error(seconds_, tokens_);
  if (within > known_percent_) return;
  control.stop = true;
  known_rate_ = KnownRate{within, stable_steps_};
}

void StopRules::on_step_end(const StepEvent& event, TrainControl& control) {
  if (steps_++ == 0) begin_s_ = event.begin_s;
  if (stop_after_s_ > 0 && event.end_s - begin_s_ >= stop_after_s_) control.stop = true;
  if (!automatic_ && known_percent_ <= 0) return;
  if (warmup_steps_ == 0) {
    if (!warm(event)) return;
    warmup_steps_ = steps_;
    stable_begin_s_ = event.end_s;
    if (on_stable_begin_) on_stable_begin_();
    return;
  }
  ++stable_steps_;
  if (automatic_ && stable_steps_ >= kStableSteps &&
      event.end_s - stable_begin_s_ >= kStableSeconds) {
    control.stop = true;
  }
  if (known_percent_ > 0 && !control.stop) look_at_rate(event, control);
}

}  // namespace sftbench
