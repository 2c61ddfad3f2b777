// The table of one instruction set: the last include of each kernels_*.cpp.
#pragma once

#include "ops/cpu/attention_kernels.h"
#include "ops/cpu/convolution_kernels.h"
#include "ops/cpu/gemm_kernels.h"
#include "ops/cpu/row_kernels.h"
#include "ops/cpu/scan_backward_kernels.h"
#include "ops/cpu/scan_forward_kernels.h"

namespace sftbench::ops::SFTBENCH_ISA {

template <class T, class Units>
constexpr CpuKernels make_kernels() {
  return {.rms_norm_forward = rms_norm_forward<T>,
          .rms_norm_backward = rms_norm_backward<T>,
          .gated_norm_forward = gated_norm_forward<T>,
          .gated_norm_backward = gated_norm_backward<T>,
          .rope = rope<T>,
          .swiglu_forward = swiglu_forward<T>,
          .swiglu_backward = swiglu_backward<T>,
          .add_rows = add_rows<T>,
          .combine_rows = combine_rows<T>,
          .combine_rows_backward = combine_rows_backward<T>,
          .convolution_forward = convolution_forward<T>,
          .convolution_backward = convolution_backward<T>,
          .scan_scores = scan_scores<T>,
          .scan_forward = scan_forward<T>,
          .scan_backward = scan_backward<T>,
          .cross_entropy = cross_entropy<T>,
          .sum_of_squares = sum_of_squares<T>,
          .attention = attention_kernels<Units, T>(),
          .gemm_rows = kTileRows,
          .gemm_columns = kTileColumns,
          .gemm_pack_left = gemm_pack<kTileRows, T>,
          .gemm_pack_right = gemm_pack<kTileColumns, T>,
          .gemm_multiply = gemm_multiply,
          .gemm_round = gemm_round<T>};
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
