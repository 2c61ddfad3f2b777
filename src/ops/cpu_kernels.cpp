#include "ops/cpu_kernels.h"

#include <cstdlib>
#include <iterator>
#include <string_view>

namespace sftbench::ops {

namespace baseline {
extern const CpuKernels kKernels[3];
}
namespace avx2 {
extern const CpuKernels kKernels[3];
}
namespace avx512 {
extern const CpuKernels kKernels[3];
}
namespace avx512_bf16 {
extern const CpuKernels kKernels[3];
}

namespace {

struct InstructionSet {
  std::string_view name;
  bool available;
  const CpuKernels* kernels;
};

const CpuKernels* choose() {
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi2");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool has_bf16 = has_avx512 && __builtin_cpu_supports("avx512bf16");
  const InstructionSet sets[] = {{"avx512_bf16", has_bf16, avx512_bf16::kKernels},
                                 {"avx512", has_avx512, avx512::kKernels},
                                 {"avx2", has_avx2, avx2::kKernels},
                                 {"baseline", true, baseline::kKernels}};
  const char* wanted = std::getenv("SFTBENCH_ISA");
  for (const InstructionSet& set : sets) {
    if (wanted != nullptr && set.name == wanted && set.available) return set.kernels;
  }
  for (const InstructionSet& set : sets) {
    if (set.available) return set.kernels;
  }
  return baseline::kKernels;
}

}  // namespace

const CpuKernels& cpu_kernels(CpuType type) {
  static const CpuKernels* const kernels = choose();
  return kernels[static_cast<int>(type)];
}

}  // namespace sftbench::ops
