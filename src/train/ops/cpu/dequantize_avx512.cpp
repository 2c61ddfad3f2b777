// Dequantization for AVX-512.
#include <immintrin.h>

#include "ops/dequantize_tile.h"

#pragma GCC target( \
    "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,f16c,prefer-vector-width=512")
#define SFTBENCH_ISA avx512
#define SFTBENCH_HAS_AVX512
#include "ops/cpu/dequantize_kernels.h"
