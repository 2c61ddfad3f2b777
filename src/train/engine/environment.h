// What the engine runs on, as results record it.
#pragma once

#include "sftbench/base/json.h"

namespace sftbench {

// {libtorch, blas, onednn, threads, cpu_instructions, cuda, nccl, driver, gpus}; null where there
// is none.
Json engine_environment();

}  // namespace sftbench
