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

struct Candidate {
  std::string_view name;
  bool available;
  CpuInstructions instructions;
  const CpuKernels* kernels;
};

Candidate choose() {
  __builtin_cpu_init();
  const bool has_avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                        __builtin_cpu_supports("bmi2");
  const bool has_avx512 = has_avx2 && __builtin_cpu_supports("avx512f") &&
                          __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  const bool has_bf16 = has_avx512 && __builtin_cpu_supports("avx512bf16");
  const Candidate sets[] = {
      {"avx512_bf16", has_bf16, CpuInstructions::kAvx512Bf16, avx512_bf16::kKernels},
      {"avx512", has_avx512, CpuInstructions::kAvx512, avx512::kKernels},
      {"avx2", has_avx2, CpuInstructions::kAvx2, avx2::kKernels},
      {"baseline", true, CpuInstructions::kBaseline, baseline::kKernels}};
  const char* wanted = std::getenv("SFTBENCH_ISA");
  for (const Candidate& set : sets) {
    if (wanted != nullptr && set.name == wanted && set.available) return set;
  }
  for (const Candidate& set : sets) {
    if (set.available) return set;
  }
  return sets[3];
}

const Candidate& chosen() {
  static const Candidate kChosen = choose();
  return kChosen;
}

}  // namespace

CpuInstructions cpu_instructions() {
  return chosen().instructions;
}

const CpuKernels& cpu_kernels(CpuType type) {
  return chosen().kernels[static_cast<int>(type)];
}

}  // namespace sftbench::ops
