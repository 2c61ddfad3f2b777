// The families of before Llama: LayerNorm, one fused projection for queries, keys and values, and an
// MLP of two projections.
#pragma once

#include "sftbench/families/family.h"

namespace sftbench {

extern const Family kBloomFamily;
extern const Family kGptBigCodeFamily;

}  // namespace sftbench
