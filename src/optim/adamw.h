// AdamW (Loshchilov and Hutter 2019) with the arithmetic of torch.optim.AdamW(fused=True).
#pragma once

#include <memory>
#include <vector>

#include "sftbench/optim/optimizer.h"

namespace sftbench {

std::unique_ptr<Optimizer> make_adamw(std::vector<ParameterGroup> groups,
                                      const OptimizerOptions& options);

}  // namespace sftbench
