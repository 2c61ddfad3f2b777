#include <algorithm>

#include "sftbench/sweep/sweep.h"

namespace sftbench {

int64_t SweepState::settled(Status status) const {
  int64_t sum = 0;
  for (const auto& [held, count] : before) sum += held == status ? count : 0;
  for (const auto& [kind, count] : now) sum += kind.first == status ? count : 0;
  return sum;
}

int64_t SweepState::settled() const {
  return settled(Status::kValid) + settled(Status::kInvalid) + settled(Status::kFailed) + unread;
}

void SweepState::estimate(double parts) {
  double done = parts;
  for (const auto& [kind, count] : now) done += static_cast<double>(count);
  const double left = static_cast<double>(cells_at_most - settled()) - parts;
  seconds_left.reset();
  if (done > 0) seconds_left = elapsed_s / done * std::max(0.0, left);
}

}  // namespace sftbench
