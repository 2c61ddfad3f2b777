// Which optimizers cannot do what an entity asks, known without libtorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/variants/optimizer.h"
#include "sftbench/variants/precision.h"

namespace sftbench {

// A sentence for each reason, with what works instead; empty: it can be done. `distributed`:
// gradients go through a communication library.
std::vector<std::string> optimizer_refusals(OptimizerKind kind, int64_t gradient_accumulation_steps,
                                            Autocast autocast, bool distributed);

// The same of states that wait in the host's memory, as the argument `offload` says; empty: they
// can.
std::string offload_refusal(const std::string& offload, OptimizerKind kind);

}  // namespace sftbench
