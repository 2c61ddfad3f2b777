// Updates on GPUs: a launch takes up to 32 tensors, whose addresses travel as its argument, and
// reads and writes every byte once. The arithmetic is that of update_rules.h.
#include <algorithm>
#include <iterator>

#include "ops/cuda/pack.h"
#include "ops/cuda/rules.h"
#include "ops/update_impl.h"

namespace sftbench::ops {
namespace {

constexpr int kUpdateThreads = 256, kTableTensors = 32;
// Blocks on a multiprocessor, at least. A thread may have 80 registers then, and nothing spills.
// The loads of 768 threads are 48 KiB for AdamW in float32. Left to itself, ptxas squeezes that
// into 40 registers on sm_80 and spills two.
constexpr int kUpdateBlocks = 3;
constexpr int64_t kBlockElements = 8192;

template <class P, class S, int kStates>
struct UpdateTable {
  P* parameter[kTableTensors];
  const P* gradient[kTableTensors];
  S* states[std::max(kStates, 1)][kTableTensors];
  int64_t numel[kTableTensors];
  int first_block[kTableTensors + 1];
  bool packs[kTableTensors];
  int tensors;
};

// Elements [i, i + kCount) of a tensor.
template <class Rule, int kStates, int kCount, class P, class S>
__device__ __forceinline__ void update_pack(const UpdateTable<P, S, kStates>& table, int tensor,
                                            int64_t i, const RuleFactors<float>& factors) {
  auto parameter = load_pack<kCount>(table.parameter[tensor] + i);
  const auto gradient = load_pack<kCount>(table.gradient[tensor] + i);
  Pack<S, kCount> packs[std::max(kStates, 1)];
#pragma unroll
  for (int k = 0; k < kStates; ++k) packs[k] = load_pack<kCount>(table.states[k][tensor] + i);
#pragma unroll
  for (int j = 0; j < kCount; ++j) {
    float states[std::max(kStates, 1)] = {};
#pragma unroll
    for (int k = 0; k < kStates; ++k) states[k] = static_cast<float>(packs[k].value[j]);
    auto value = static_cast<float>(parameter.value[j]);
    const float slope = static_cast<float>(gradient.value[j]) * factors.gradient_scale;
    Rule::apply(value, slope, states, factors);
    parameter.value[j] = static_cast<P>(value);
#pragma unroll
    for (int k = 0; k < kStates; ++k) packs[k].value[j] = static_cast<S>(states[k]);
  }
  store_pack(table.parameter[tensor] + i, parameter);
#pragma unroll
  for (int k = 0; k < kStates; ++k) store_pack(table.states[k][tensor] + i, packs[k]);
}

// The factors themselves or, where a graph repeats the launch, what stands at an address then.
struct FactorSource {
  RuleFactors<float> factors;
  const RuleFactors<float>* on_device;
};

template <class P, class S, class Rule, int kStates>
__global__ void __launch_bounds__(kUpdateThreads, kUpdateBlocks)
    update_tensors(const __grid_constant__ UpdateTable<P, S, kStates> table,
                   const FactorSource source) {
  const RuleFactors<float> factors =
      source.on_device == nullptr ? source.factors : *source.on_device;
  if (isnan(factors.gradient_scale)) return;  // the norm was not finite: the run is at its end
  constexpr int kCount = kPackBytes / static_cast<int>(std::max(sizeof(P), sizeof(S)));
  const int block = static_cast<int>(blockIdx.x);
  int tensor = 0;
  while (block >= table.first_block[tensor + 1]) ++tensor;
  const int64_t begin = (block - table.first_block[tensor]) * kBlockElements;
  const int64_t end =
      begin + kBlockElements < table.numel[tensor] ? begin + kBlockElements : table.numel[tensor];
  const int64_t packed = table.packs[tensor] ? begin + (end - begin) / kCount * kCount : begin;
  for (int64_t i = begin + threadIdx.x * kCount; i < packed; i += kUpdateThreads * kCount)
    update_pack<Rule, kStates, kCount>(table, tensor, i, factors);
  for (int64_t i = packed + threadIdx.x; i < end; i += kUpdateThreads)
    update_pack<Rule, kStates, 1>(table, tensor, i, factors);
}

template <class P, class S, int kStates>
void add_to(UpdateTable<P, S, kStates>& table, const UpdatedTensor& updated) {
  const int t = table.tensors++;
  table.parameter[t] = updated.parameter.data_ptr<P>();
  table.gradient[t] = updated.gradient.data_ptr<P>();
  table.numel[t] = updated.parameter.numel();
  bool packs = takes_packs<P>(0, {table.parameter[t], table.gradient[t]});
  for (int k = 0; k < kStates; ++k) {
    table.states[k][t] = updated.states[static_cast<size_t>(k)].data_ptr<S>();
    packs &= takes_packs<S>(0, {table.states[k][t]});
  }
  table.packs[t] = packs;
  const int64_t blocks = (table.numel[t] + kBlockElements - 1) / kBlockElements;
  table.first_block[t + 1] = table.first_block[t] + static_cast<int>(blocks);
}

template <class P, class S, class Rule, int kStates>
void launch_updates(const std::vector<const UpdatedTensor*>& tensors, const FactorSource& factors) {
  for (size_t begin = 0; begin < tensors.size(); begin += kTableTensors) {
    const size_t end = std::min(tensors.size(), begin + kTableTensors);
    UpdateTable<P, S, kStates> table{};
    for (size_t t = begin; t < end; ++t) add_to(table, *tensors[t]);
    const auto blocks = static_cast<unsigned>(table.first_block[table.tensors]);
    launch_kernel(update_tensors<P, S, Rule, kStates>, {blocks, kUpdateThreads}, table, factors);
  }
}

template <class P, class S>
void launch_rule(UpdateRule rule, const std::vector<const UpdatedTensor*>& tensors,
                 const FactorSource& factors) {
  using Launch = void (*)(const std::vector<const UpdatedTensor*>&, const FactorSource&);
  static constexpr Launch kLaunch[] = {launch_updates<P, S, cuda::SgdRule, 0>,
                                       launch_updates<P, S, cuda::RmspropRule, 1>,
                                       launch_updates<P, S, cuda::LionRule, 1>,
                                       launch_updates<P, S, cuda::AdamWRule, 2>,
                                       launch_updates<P, S, cuda::AdemamixRule, 3>,
                                       launch_updates<P, S, cuda::GrokAdamWRule, 3>,
                                       launch_updates<P, S, cuda::ScheduleFreeSgdRule, 1>,
                                       launch_updates<P, S, cuda::ScheduleFreeAdamWRule, 2>};
  static_assert(std::size(kLaunch) == kUpdateRules, "a rule without a launch updates nothing");
  kLaunch[static_cast<int>(rule)](tensors, factors);
}

// Those of one dtype, with states in it or in float32.
template <class P>
void launch_type(UpdateRule rule, const std::vector<UpdatedTensor>& tensors, torch::Dtype dtype,
                 const FactorSource& factors) {
  std::vector<const UpdatedTensor*> alike, wide;
  for (const UpdatedTensor& updated : tensors) {
    if (updated.parameter.scalar_type() != dtype || updated.parameter.numel() == 0) continue;
    const bool same = updated.states.empty() || updated.states[0].scalar_type() == dtype;
    (same ? alike : wide).push_back(&updated);
  }
  launch_rule<P, P>(rule, alike, factors);
  if constexpr (!std::is_same_v<P, float>) launch_rule<P, float>(rule, wide, factors);
}

}  // namespace

void update_cuda(UpdateRule rule, const std::vector<UpdatedTensor>& tensors,
                 const RuleFactors<float>& own_factors, const torch::Tensor& on_device) {
  if (tensors.empty()) return;
  const DeviceScope scope(tensors.front().parameter);
  FactorSource factors = {own_factors, nullptr};
  if (on_device.defined())
    factors.on_device = reinterpret_cast<const RuleFactors<float>*>(on_device.data_ptr<float>());
  launch_type<float>(rule, tensors, torch::kFloat32, factors);
  launch_type<at::BFloat16>(rule, tensors, torch::kBFloat16, factors);
  launch_type<at::Half>(rule, tensors, torch::kFloat16, factors);
}

}  // namespace sftbench::ops
