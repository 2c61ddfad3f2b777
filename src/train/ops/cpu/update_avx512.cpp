// Loops of the optimizers for AVX-512.
#include <immintrin.h>

#include "ops/cpu/target.h"
#include "ops/cpu/update.h"

SFTBENCH_TARGET("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,bmi,bmi2,f16c")
#define SFTBENCH_ISA avx512
#define SFTBENCH_HAS_AVX512
#include "ops/cpu/update_kernels.h"

SFTBENCH_END_TARGET
