// Random quantized weights: the dense initializer's own numbers, rounded to the grid that GPTQ
// takes before it corrects for errors (Quantizer.find_params of GPTQ's code: the extremes of each
// group).
#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "model/gptq_linear.h"
#include "model/parallel_tasks.h"
#include "model/philox_normal.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

// Output features that one task quantizes: their zeros fill whole words, and their weights whole
// blocks of the normal generator.
constexpr int64_t kOutputs = kGptqPackedCodes;
static_assert(kGptqPackedCodes * kOutputs % kNormalBlock == 0);

struct Grid {
  float scale;  // as float16 has it
  uint32_t zero;
};

// Every code's value lies between the extremes of the weights, zero among them.
Grid make_grid(float least, float most, const GptqConfig& config) {
  const auto last_code = static_cast<float>((1 << config.bits) - 1);
  least = std::min(least, 0.0f);
  most = std::max(most, 0.0f);
  if (config.sym) {
    most = std::max(most, -least);
    least = -most;
  }
  if (least == most) least = -1.0f, most = 1.0f;
  const float scale = static_cast<float>(static_cast<at::Half>((most - least) / last_code));
  const float zero = config.sym ? (last_code + 1) / 2 : std::round(-least / scale);
  return {scale, static_cast<uint32_t>(std::clamp(zero, 0.0f, last_code))};
}

uint32_t code_of(float weight, const Grid& grid, const GptqConfig& config) {
  const float code = std::round(weight / grid.scale) + static_cast<float>(grid.zero);
  return static_cast<uint32_t>(std::clamp(code, 0.0f, static_cast<float>((1 << config.bits) - 1)));
}

// Code `index` into words that are `stride` apart and zero there.
void put_code(uint32_t* words, int64_t stride, int64_t index, int64_t bits, uint32_t code) {
  const int64_t bit = index * bits, shift = bit % 32;
  words[bit / 32 * stride] |= code << shift;
  if (shift + bits > 32) words[(bit / 32 + 1) * stride] |= code >> (32 - shift);
}

// Features in the order in which they are, or, with desc_act, in one that the seed gives.
void fill_groups(const torch::Tensor& g_idx, const GptqConfig& config, uint64_t key) {
  const int64_t in = g_idx.size(0), size = config.group_size == -1 ? in : config.group_size;
  auto* groups = g_idx.data_ptr<int32_t>();
  for (int64_t i = 0; i < in; ++i) groups[i] = static_cast<int32_t>(i / size);
  if (!config.desc_act) return;
  std::vector<float> activity(
      static_cast<size_t>((in + kNormalBlock - 1) / kNormalBlock * kNormalBlock));
  fill_standard_normal(~key, 0, activity.data(), static_cast<int64_t>(activity.size()));
  std::vector<int64_t> order(static_cast<size_t>(in));
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(), [&activity](int64_t a, int64_t b) {
    return activity[static_cast<size_t>(a)] > activity[static_cast<size_t>(b)];
  });
  for (int64_t i = 0; i < in; ++i)
    groups[order[static_cast<size_t>(i)]] = static_cast<int32_t>(i / size);
}

// The tensors of one linear in host memory, zero where codes go.
struct Packed {
  uint32_t *qweight, *qzeros;
  at::Half* scales;
  const int32_t* groups;
  int64_t in, out, group_count;
};

void quantize_output(const Packed& to, const GptqConfig& config, int64_t output,
                     const float* weights) {
  std::vector<float> least(static_cast<size_t>(to.group_count)), most(least);
  for (int64_t i = 0; i < to.in; ++i) {
    const auto group = static_cast<size_t>(to.groups[i]);
    least[group] = std::min(least[group], weights[i]);
    most[group] = std::max(most[group], weights[i]);
  }
  std::vector<Grid> grids;
  const uint32_t mask = (1u << config.bits) - 1u;
  for (int64_t g = 0; g < to.group_count; ++g) {
    const auto group = static_cast<size_t>(g);
    grids.push_back(make_grid(least[group], most[group], config));
    // A zero of 0 that is stored less one would borrow from its neighbour: the grid begins at 1.
    if (config.zeros_less_one) grids[group].zero = std::max(grids[group].zero, 1u);
    to.scales[g * to.out + output] = static_cast<at::Half>(grids[group].scale);
    put_code(to.qzeros + g * (to.out / 32 * config.bits), 1, output, config.bits,
             (grids[group].zero - (config.zeros_less_one ? 1u : 0u)) & mask);
  }
  for (int64_t i = 0; i < to.in; ++i) {
    const Grid& grid = grids[static_cast<size_t>(to.groups[i])];
    put_code(to.qweight + output, to.out, i, config.bits, code_of(weights[i], grid, config));
  }
}

}  // namespace

void GptqLinear::quantize_normal(uint64_t key, float stddev) {
  const int64_t in = in_features(), out = out_features();
  const auto on_host = [](const torch::Tensor& tensor) {
    return tensor.is_cpu() ? tensor : torch::empty_like(tensor, torch::kCPU);
  };
  const torch::Tensor tensors[] = {weight_.qweight, weight_.qzeros, weight_.scales, weight_.g_idx};
  const torch::Tensor qweight = on_host(tensors[0]).zero_(), qzeros = on_host(tensors[1]).zero_(),
                      scales = on_host(tensors[2]), g_idx = on_host(tensors[3]);
  fill_groups(g_idx, config_, key);
  const Packed packed = {reinterpret_cast<uint32_t*>(qweight.data_ptr<int32_t>()),
                         reinterpret_cast<uint32_t*>(qzeros.data_ptr<int32_t>()),
                         scales.data_ptr<at::Half>(),
                         g_idx.data_ptr<int32_t>(),
                         in,
                         out,
                         config_.groups(in)};
  run_parallel_tasks(static_cast<size_t>(out / kOutputs), [&](size_t task) {
    const int64_t first = static_cast<int64_t>(task) * kOutputs;
    std::vector<float> weights(static_cast<size_t>(kOutputs * in));
    fill_standard_normal(key, static_cast<uint64_t>(first * in), weights.data(), kOutputs * in);
    for (float& weight : weights) weight *= stddev;
    for (int64_t o = 0; o < kOutputs; ++o)
      quantize_output(packed, config_, first + o, weights.data() + o * in);
  });
  const torch::Tensor filled[] = {qweight, qzeros, scales, g_idx};
  for (size_t i = 0; i < 4; ++i) {
    if (!tensors[i].is_cpu()) torch::Tensor(tensors[i]).copy_(filled[i]);
  }
}

}  // namespace sftbench
