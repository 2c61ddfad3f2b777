// Block-wise quantized steps for AVX2 and FMA.
#include <immintrin.h>

#include "ops/blockwise_quantize_impl.h"
#include "ops/cpu/target.h"

SFTBENCH_TARGET("avx2,fma,bmi,bmi2,f16c")
#define SFTBENCH_ISA avx2
#define SFTBENCH_HAS_AVX2
#include "ops/cpu/blockwise_quantize_kernels.h"

SFTBENCH_END_TARGET
