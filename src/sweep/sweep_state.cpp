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

}  // namespace sftbench
