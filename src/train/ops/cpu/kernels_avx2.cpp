// CPU kernels for AVX2 and FMA (Haswell, Zen and later).
#include <immintrin.h>

#include "ops/cpu/kernels.h"
#include "ops/cpu/target.h"

SFTBENCH_TARGET("avx2,fma,bmi,bmi2,f16c")
#define SFTBENCH_ISA avx2
#define SFTBENCH_HAS_AVX2
#define SFTBENCH_BLOCK_ROWS 4
#define SFTBENCH_BLOCK_VECTORS 3
#include "ops/cpu/kernel_table.h"

SFTBENCH_END_TARGET
