// What an adapter draws its dropout from in the pass that runs.
#pragma once

#include <cstdint>

#include "sftbench/model/causal_lm.h"
#include "sftbench/ops/dropout.h"
#include "sftbench/ops/row_tiles.h"

namespace sftbench {

// Nothing where the pass does not train.
inline ops::Dropout adapter_dropout(double probability, uint64_t stream, const ForwardPass& pass) {
  if (!pass.training) return {};
  constexpr uint64_t kOdd = 0xD1B54A32D192ED03U;  // spreads the numbers of the passes over 64 bits
  const uint64_t seed = stream ^ (static_cast<uint64_t>(pass.number) * kOdd);
  const uint64_t tile = ops::current_row_tile();
  return {probability, tile == 0 ? seed : ops::derived_seed(seed, tile)};
}

}  // namespace sftbench
