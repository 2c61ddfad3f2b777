// The table of one instruction set: the last include of each cpu_kernels_*.cpp.
#pragma once

#include "ops/cpu_attention_kernels.h"
#include "ops/cpu_row_kernels.h"

namespace sftbench::ops::SFTBENCH_ISA {

template <class T, class Units>
constexpr CpuKernels make_kernels() {
  return {rms_norm_forward<T>,
          rms_norm_backward<T>,
          rope<T>,
          swiglu_forward<T>,
          swiglu_backward<T>,
          add_rows<T>,
          cross_entropy<T>,
          sum_of_squares<T>,
          attention_pack<Units, T>,
          attention_forward<Units, T>,
          attention_backward<Units, T>,
          attention_reduce<T>};
}

#ifdef SFTBENCH_HAS_BF16_PRODUCTS
using BFloat16Units = PairUnits;
#else
using BFloat16Units = FloatUnits;
#endif

extern const CpuKernels kKernels[3];  // by CpuType
const CpuKernels kKernels[3] = {make_kernels<float, FloatUnits>(),
                                make_kernels<BFloat16, BFloat16Units>(),
                                make_kernels<Float16, FloatUnits>()};

}  // namespace sftbench::ops::SFTBENCH_ISA
