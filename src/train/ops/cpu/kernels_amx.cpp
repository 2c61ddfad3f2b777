// Attention in bfloat16 on the tiles of AMX (Sapphire Rapids and later).
#include <immintrin.h>

#include "ops/cpu/kernels.h"
#include "ops/cpu/target.h"

SFTBENCH_TARGET("amx-tile,amx-bf16,avx512bf16,avx512bw,avx512dq,avx512vl,fma,bmi,bmi2")
#define SFTBENCH_ISA amx
#define SFTBENCH_HAS_AVX512
#define SFTBENCH_HAS_BF16_PRODUCTS
#define SFTBENCH_HAS_TILES
#define SFTBENCH_BLOCK_ROWS 32
#include "ops/cpu/attention_kernels.h"

namespace sftbench::ops::amx {

extern const AttentionKernels kAttention;
const AttentionKernels kAttention = attention_kernels<TileUnits, BFloat16>();

}  // namespace sftbench::ops::amx

SFTBENCH_END_TARGET
