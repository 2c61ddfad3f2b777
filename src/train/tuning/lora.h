// LoRA (Hu et al. 2021) as peft does it. A starts uniform in +-1/sqrt(in) (Kaiming with a = sqrt
// 5), B at zero, each A drawn from a stream of its own so that it does not depend on what else is
// adapted. Over half-precision weights the adapters are float32 (peft's autocast_adapter_dtype) and
// are rounded to half precision for their GEMMs, which peft does under autocast only; without it,
// peft widens x to float32 and rounds the sum.
//
// Activated LoRA (Greenewald et al. 2025, arXiv 2504.12397) is the same adapter, silent in front of
// the last invocation of each sequence: which rows those are, the pass says (data/invocation.h).
//
// DoRA (Liu et al. 2024, arXiv 2402.09353) trains a magnitude for each output beside it:
// ops/dora.h.
//
// Linears with the same input share A's GEMM and one dropout mask; peft draws a mask for each.
#pragma once

#include <memory>

#include "sftbench/tuning/tuning.h"

namespace sftbench {

std::unique_ptr<Tuning> make_lora_tuning(const TuningOptions& options);

}  // namespace sftbench
