#include "phantom/limits.h"

#include "phantom/settings.h"

namespace sftbench::phantom {

size_t shared_memory_opt_in() {
  const int capability = settings().major * 10 + settings().minor;
  if (capability >= 90) return size_t{227} << 10;
  if (capability == 80) return size_t{163} << 10;
  if (capability >= 86) return size_t{99} << 10;
  if (capability == 75) return size_t{64} << 10;
  return size_t{96} << 10;
}

int threads_per_multiprocessor() {
  const int capability = settings().major * 10 + settings().minor;
  if (capability == 75) return 1024;
  return capability == 86 || capability == 89 ? 1536 : 2048;
}

}  // namespace sftbench::phantom
