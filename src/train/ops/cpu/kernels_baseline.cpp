// CPU kernels for any x86-64.
#include <immintrin.h>

#include "ops/cpu/kernels.h"

#define SFTBENCH_ISA baseline
#define SFTBENCH_BLOCK_ROWS 4
#define SFTBENCH_BLOCK_VECTORS 2
#include "ops/cpu/kernel_table.h"
