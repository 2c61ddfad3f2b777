// A measurement for people: what was measured and how it ended, the figures that most of them look
// for, then all properties. Those of GPUs are left out where none took part: they are all 0.
#pragma once

#include <optional>
#include <string>

#include "sftbench/results/measurement.h"

namespace sftbench {

std::string measurement_text(const Measurement& measurement, const DevicePrices& prices);

// Nothing when it has no rate, or its devices no price.
std::optional<TokenCost> token_cost(const DevicePrices& prices, const Measurement& measurement);

}  // namespace sftbench
