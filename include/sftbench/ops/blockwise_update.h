// One step of an element-wise optimizer (update_rule.h) whose states are block-wise quantized: per
// block of 256 elements the states are read, everything is computed in float32, the parameter is
// updated from the fresh states, and these are quantized again, in one pass over memory.
// Source: bitsandbytes csrc/kernels.cu (8 bits), torchao.optim.AdamW4bit (4 bits).
#pragma once

#include <vector>

#include "sftbench/ops/blockwise_quantize.h"
#include "sftbench/ops/tensor.h"
#include "sftbench/ops/update_rule.h"

namespace sftbench::ops {

enum class StateBits { k8, k4 };

// Fresh states of a rule. A mean has a sign; of several states the last is a mean of squares, which
// has none. RMSprop's single state takes the signed map too, as bitsandbytes has one for all kinds
// with a single state. REQUIRES: kRmsprop, kLion, kAdamW or kAdemamix; with 4 bits kAdamW.
// Bytes per element: 1 + 4/256, or 1/2 + 4/256, of each state.
std::vector<QuantizedTensor> zero_states(UpdateRule rule, StateBits bits,
                                         const torch::Tensor& parameter);

struct BlockwiseTensor {
  torch::Tensor parameter, gradient;    // float32, bfloat16 or float16; the same dtype and shape
  std::vector<QuantizedTensor> states;  // of zero_states()
};

// Updates parameters and states in place; the gradient is only read. With 8 bits and several states
// an element whose gradient is not finite keeps its parameter, and its states become 0, as in
// bitsandbytes; 4 bits and single states have no such guard there and none here.
// std::invalid_argument where shapes, dtypes or states do not fit.
void blockwise_update(UpdateRule rule, const std::vector<BlockwiseTensor>& tensors,
                      const RuleFactors<double>& factors);

}  // namespace sftbench::ops
