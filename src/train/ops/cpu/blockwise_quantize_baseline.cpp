// Block-wise quantized steps for any x86-64.
#include <immintrin.h>

#include "ops/blockwise_quantize_impl.h"

#define SFTBENCH_ISA baseline
#include "ops/cpu/blockwise_quantize_kernels.h"
