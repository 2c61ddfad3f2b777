#include "sftbench/optim/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// Position between the end of the warm-up (0) and the end of the run (1).
double progress(int64_t step, int64_t warmup, int64_t total) {
  return static_cast<double>(step - warmup) /
         static_cast<double>(std::max<int64_t>(1, total - warmup));
}

double rise(int64_t step, int64_t warmup) {
  return static_cast<double>(step) / static_cast<double>(std::max<int64_t>(1, warmup));
}

}  // namespace

Schedule make_schedule(const std::string& name, int64_t total_steps, double warmup_ratio) {
  const auto warmup =
      static_cast<int64_t>(std::ceil(static_cast<double>(total_steps) * warmup_ratio));
  if (name == "cosine") {
    return [=](int64_t step) {
      if (step < warmup) return rise(step, warmup);
      const double angle = std::numbers::pi * progress(step, warmup, total_steps);
      return std::max(0.0, 0.5 * (1.0 + std::cos(angle)));
    };
  }
  if (name == "linear") {
    return [=](int64_t step) {
      return step < warmup ? rise(step, warmup)
                           : std::max(0.0, 1.0 - progress(step, warmup, total_steps));
    };
  }
  if (name == "constant_with_warmup") {
    return [=](int64_t step) { return step < warmup ? rise(step, warmup) : 1.0; };
  }
  if (name == "constant") return [](int64_t) { return 1.0; };

  throw unsupported_choice("learning-rate schedule", name,
                           {"constant", "constant_with_warmup", "cosine", "linear"});
}

}  // namespace sftbench
