// Loops of the optimizers for any x86-64.
#include <immintrin.h>

#include "ops/cpu/update.h"

#define SFTBENCH_ISA baseline
#include "ops/cpu/update_kernels.h"
