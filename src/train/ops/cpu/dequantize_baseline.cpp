// Dequantization for any x86-64.
#include <immintrin.h>

#include "ops/dequantize_tile.h"

#define SFTBENCH_ISA baseline
#include "ops/cpu/dequantize_kernels.h"
