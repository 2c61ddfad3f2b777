#include "ops/cpu/kernels.h"

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

const CpuKernels* table_of(CpuInstructions instructions) {
  switch (instructions) {
    case CpuInstructions::kBaseline:
      return baseline::kKernels;
    case CpuInstructions::kAvx2:
      return avx2::kKernels;
    case CpuInstructions::kAvx512:
      return avx512::kKernels;
    case CpuInstructions::kAvx512Bf16:
      break;
  }
  return avx512_bf16::kKernels;
}

}  // namespace

const CpuKernels& cpu_kernels(CpuType type) {
  static const CpuKernels* const chosen = table_of(cpu_instructions());
  return chosen[static_cast<int>(type)];
}

}  // namespace sftbench::ops
