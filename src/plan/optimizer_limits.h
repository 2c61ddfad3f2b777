// Which optimizers cannot do what an entity asks, known without libtorch. Names that do not exist
// never get here: the domain of the experiments' property `optim` refuses them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sftbench {

// A sentence for each reason, with what works instead; empty: it can be done. `autocast` as in
// PrecisionPlan.
std::vector<std::string> optimizer_refusals(const std::string& name,
                                            int64_t gradient_accumulation_steps,
                                            const std::string& autocast);

}  // namespace sftbench
