#include "ops/cpu/kernels.h"

#include <algorithm>
#include <array>

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

namespace amx {
extern const AttentionKernels kAttention;
}

namespace {

// Of AMX only attention in bfloat16 differs.
const CpuKernels* amx_table() {
  static const std::array<CpuKernels, 3> table = [] {
    std::array<CpuKernels, 3> kernels;
    std::copy_n(avx512_bf16::kKernels, kernels.size(), kernels.begin());
    kernels[static_cast<size_t>(CpuType::kBFloat16)].attention = amx::kAttention;
    return kernels;
  }();
  return table.data();
}

const CpuKernels* table_of(CpuInstructions instructions) {
  switch (instructions) {
    case CpuInstructions::kBaseline:
      return baseline::kKernels;
    case CpuInstructions::kAvx2:
      return avx2::kKernels;
    case CpuInstructions::kAvx512:
      return avx512::kKernels;
    case CpuInstructions::kAvx512Bf16:
      return avx512_bf16::kKernels;
    case CpuInstructions::kAmx:
      break;
  }
  return amx_table();
}

}  // namespace

const CpuKernels& cpu_kernels(CpuType type) {
  static const CpuKernels* const chosen = table_of(cpu_instructions());
  return chosen[static_cast<int>(type)];
}

}  // namespace sftbench::ops
