// Updates of 8-bit states on GPUs: one thread per element, one thread block per block of 256 at a
// time. Reads and writes every byte once; the arithmetic is that of update_rules.h, the quantizer
// the bisection of quantize_one().
#include <algorithm>

#include "ops/blockwise_quantize_impl.h"
#include "ops/cuda/reduce.h"
#include "ops/cuda/rules.h"

namespace sftbench::ops {
namespace {

constexpr int kThreads = kQuantBlockNumel;
constexpr int kWarps = kThreads / kWarpThreads;

// Small enough to travel as an argument of the kernel.
struct Maps {
  float with_sign[256], without_sign[256];
};

template <class T>
struct Problem {
  T* parameter;
  const T* gradient;
  uint8_t* codes[kMaxQuantizedStates];
  float* scales[kMaxQuantizedStates];
  int64_t numel;
};

template <bool kSigned>
__device__ __forceinline__ uint8_t quantize(const float* values, float x) {
  int pivot = 127, upper_pivot = 255, lower_pivot = 0;
  float lower = values[0], upper = values[255], value = values[pivot];
#pragma unroll
  for (int step = 64; step > 0; step >>= 1) {
    const bool above = x > value;
    lower_pivot = above ? pivot : lower_pivot;
    lower = above ? value : lower;
    upper_pivot = above ? upper_pivot : pivot;
    upper = above ? upper : value;
    pivot += above ? step : -step;
    value = values[pivot];
  }
  int code = pivot;
  if (x > value) {
    if (x > (upper + value) * 0.5f) code = upper_pivot;
  } else if (x < (lower + value) * 0.5f) {
    code = lower_pivot;
  }
  if (kSigned && signbit(values[code]) != signbit(x)) code += x > 0.0f ? 1 : -1;
  if (kSigned && isnan(x)) code = 255;  // 0/0 has no certain sign
  return static_cast<uint8_t>(code);
}

template <class T, class Rule, int kStates>
__global__ void __launch_bounds__(kThreads)
    update_blocks(const Problem<T> problem, const RuleFactors<float> factors,
                  const __grid_constant__ Maps maps) {
  SFTBENCH_BLOCK_SHARED(float, with_sign, [256]);
  SFTBENCH_BLOCK_SHARED(float, without_sign, [256]);
  SFTBENCH_BLOCK_SHARED(float, scratch, [kStates][kWarps]);
  const int lane = static_cast<int>(threadIdx.x);
  with_sign[lane] = maps.with_sign[lane];
  without_sign[lane] = maps.without_sign[lane];
  __syncthreads();

  const int64_t blocks = (problem.numel + kThreads - 1) / kThreads;
  for (int64_t block = blockIdx.x; block < blocks; block += gridDim.x) {
    const int64_t i = block * kThreads + lane;
    const bool inside = i < problem.numel;
    float states[kStates];
#pragma unroll
    for (int k = 0; k < kStates; ++k) {
      const float* values = kStates == 1 || k + 1 < kStates ? with_sign : without_sign;
      states[k] = inside ? values[problem.codes[k][i]] * problem.scales[k][block] : 0.0f;
    }
    if (inside) {
      const float gradient = static_cast<float>(problem.gradient[i]) * factors.gradient_scale;
      const bool skipped = kStates > 1 && !isfinite(gradient);
      float value = static_cast<float>(problem.parameter[i]);
      Rule::apply(value, gradient, states, factors);
      if (!skipped) problem.parameter[i] = static_cast<T>(value);
#pragma unroll
      for (int k = 0; k < kStates; ++k) states[k] = skipped ? 0.0f : states[k];
    }
#pragma unroll
    for (int k = 0; k < kStates; ++k) {
      constexpr bool kAlone = kStates == 1;
      const float scale = block_reduce<kThreads>(fabsf(states[k]), scratch[k], Maximum());
      const float x = __fdiv_rn(states[k], scale);
      if (inside) {
        problem.codes[k][i] = kAlone || k + 1 < kStates ? quantize<true>(with_sign, x)
                                                        : quantize<false>(without_sign, x);
      }
      if (lane == 0) problem.scales[k][block] = scale;
    }
    __syncthreads();  // the next block writes the scratch
  }
}

const Maps& maps() {
  static const Maps kMaps = [] {
    Maps result;
    const auto fill = [](QuantMap map, float* into) {
      std::copy(quant_map_values(map).begin(), quant_map_values(map).end(), into);
    };
    fill(QuantMap::kSigned8, result.with_sign);
    fill(QuantMap::kUnsigned8, result.without_sign);
    return result;
  }();
  return kMaps;
}

template <class T, class Rule, int kStates>
void launch(const BlockwiseTensor& tensor, const RuleFactors<float>& factors) {
  Problem<T> problem{};
  problem.parameter = static_cast<T*>(tensor.parameter.data_ptr());
  problem.gradient = static_cast<const T*>(tensor.gradient.data_ptr());
  problem.numel = tensor.parameter.numel();
  for (int k = 0; k < kStates; ++k) {
    problem.codes[k] = tensor.states[k].codes.data_ptr<uint8_t>();
    problem.scales[k] = tensor.states[k].scales.data_ptr<float>();
  }
  constexpr int64_t kBlocksPerProcessor = 8;  // 2048 threads
  const int64_t blocks = (problem.numel + kThreads - 1) / kThreads;
  const int64_t resident = kBlocksPerProcessor * multiprocessors();
  const LaunchShape shape = {static_cast<unsigned>(std::min(blocks, resident)), kThreads};
  launch_kernel(update_blocks<T, Rule, kStates>, shape, problem, factors, maps());
}

template <class T>
void launch_rule(UpdateRule rule, const BlockwiseTensor& tensor,
                 const RuleFactors<float>& factors) {
  switch (rule) {
    case UpdateRule::kRmsprop:
      return launch<T, cuda::RmspropRule, 1>(tensor, factors);
    case UpdateRule::kLion:
      return launch<T, cuda::LionRule, 1>(tensor, factors);
    case UpdateRule::kAdamW:
      return launch<T, cuda::AdamWRule, 2>(tensor, factors);
    default:
      return launch<T, cuda::AdemamixRule, 3>(tensor, factors);
  }
}

}  // namespace

void blockwise_update_cuda(UpdateRule rule, const BlockwiseTensor& tensor,
                           const RuleFactors<float>& factors) {
  if (tensor.parameter.numel() == 0) return;
  const DeviceScope scope(tensor.parameter);
  switch (tensor.parameter.scalar_type()) {
    case torch::kBFloat16:
      return launch_rule<at::BFloat16>(rule, tensor, factors);
    case torch::kFloat16:
      return launch_rule<at::Half>(rule, tensor, factors);
    default:
      return launch_rule<float>(rule, tensor, factors);
  }
}

}  // namespace sftbench::ops
