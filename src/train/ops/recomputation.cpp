#include "sftbench/ops/recomputation.h"

namespace sftbench::ops {

thread_local int Recomputation::depth_ = 0;
thread_local int LastProduct::depth_ = 0;

bool values_needed() {
  return Recomputation::depth_ == 0 || LastProduct::depth_ == 0;
}

bool recomputing() {
  return Recomputation::depth_ > 0;
}

}  // namespace sftbench::ops
