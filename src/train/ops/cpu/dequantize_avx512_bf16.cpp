// Dequantization for AVX-512 with conversions to bfloat16 (Cooper Lake, Zen 4 and later).
#include <immintrin.h>

#include "ops/dequantize_tile.h"

#pragma GCC target( \
    "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,f16c,prefer-vector-width=512")
#define SFTBENCH_ISA avx512_bf16
#define SFTBENCH_HAS_AVX512
#define SFTBENCH_HAS_BF16_PRODUCTS
#include "ops/cpu/dequantize_kernels.h"
