// Dequantization for AVX-512 with conversions to bfloat16 (Cooper Lake, Zen 4 and later).
#include <immintrin.h>

#include "ops/cpu/target.h"
#include "ops/dequantize_tile.h"

SFTBENCH_TARGET("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,f16c")
#define SFTBENCH_ISA avx512_bf16
#define SFTBENCH_HAS_AVX512
#define SFTBENCH_HAS_BF16_PRODUCTS
#include "ops/cpu/dequantize_kernels.h"

SFTBENCH_END_TARGET
