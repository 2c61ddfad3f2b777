// CPU kernels for AVX-512 with bfloat16 products (Cooper Lake, Zen 4 and later).
#include <immintrin.h>

#include "ops/cpu/kernels.h"
#include "ops/cpu/target.h"

SFTBENCH_TARGET("avx512bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,f16c")
#define SFTBENCH_ISA avx512_bf16
#define SFTBENCH_HAS_AVX512
#define SFTBENCH_HAS_BF16_PRODUCTS
#define SFTBENCH_BLOCK_ROWS 4
#define SFTBENCH_BLOCK_VECTORS 4
#include "ops/cpu/kernel_table.h"

SFTBENCH_END_TARGET
