// Loops of the optimizers for any x86-64.
#include <immintrin.h>

#include "ops/cpu_update.h"

#define SFTBENCH_ISA baseline
#include "ops/cpu_update_kernels.h"
