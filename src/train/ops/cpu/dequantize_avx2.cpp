// Dequantization for AVX2 and FMA.
#include <immintrin.h>

#include "ops/cpu/target.h"
#include "ops/dequantize_tile.h"

SFTBENCH_TARGET("avx2,fma,bmi,bmi2,f16c")
#define SFTBENCH_ISA avx2
#define SFTBENCH_HAS_AVX2
#include "ops/cpu/dequantize_kernels.h"

SFTBENCH_END_TARGET
