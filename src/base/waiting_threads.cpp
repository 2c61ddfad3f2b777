#include "sftbench/base/waiting_threads.h"

#include <cstdlib>

namespace sftbench {

void limit_spinning() {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  // 0.05 to 0.2 ms: longer than threads that run at once are apart, shorter than a time slice.
  ::setenv("GOMP_SPINCOUNT", "5000", /*overwrite=*/0);
}

}  // namespace sftbench
