// Hugging Face's initializer (PreTrainedModel._init_weights), drawn from a stream of its own for
// each parameter.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "model/gptq_linear.h"
#include "model/huge_pages.h"
#include "model/nf4_linear.h"
#include "model/parallel_tasks.h"
#include "model/philox_normal.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/torch.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {
namespace {

constexpr int64_t kChunk = 16384;  // numbers drawn at a time: they stay in the L2 cache
static_assert(kChunk % kNormalBlock == 0);

uint64_t stream_key(uint64_t seed, const std::string& name) {
  return std::stoull(digest(std::to_string(seed) + ":" + name).substr(0, 16), nullptr, 16);
}

int64_t round_down(int64_t value, int64_t multiple) {
  return value / multiple * multiple;
}

// Elements [range.begin, range.end) of a parameter, which are the numbers of these places of its
// stream.
struct RandomPart {
  torch::Tensor values;  // a vector
  float stddev;
  uint64_t key;
  ElementRange range;
};

struct Chunk {
  const RandomPart* part;
  ElementRange range;  // within the part's; between two multiples of kChunk
};

void fill_chunk(const Chunk& chunk) {
  alignas(64) std::array<float, kChunk> numbers;
  const auto [begin, end] = chunk.range;
  const float stddev = chunk.part->stddev;
  const int64_t first = round_down(begin, kNormalBlock);
  const int64_t drawn = round_down(end - first + kNormalBlock - 1, kNormalBlock);
  fill_standard_normal(chunk.part->key, static_cast<uint64_t>(first), numbers.data(), drawn);
  for (int64_t i = 0; i < drawn; ++i) numbers[static_cast<size_t>(i)] *= stddev;
  const torch::Tensor source =
      torch::from_blob(numbers.data() + (begin - first), {end - begin}, torch::kFloat32);
  const int64_t part_begin = chunk.part->range.begin;
  chunk.part->values.slice(0, begin - part_begin, end - part_begin).copy_(source);
}

// normal(0, part.stddev) for parts in contiguous host memory.
void fill_normal_on_host(const std::vector<RandomPart>& parts, WorkCount* work) {
  std::vector<Chunk> chunks;
  for (const RandomPart& part : parts) {
    for (int64_t begin = part.range.begin; begin < part.range.end;) {
      const int64_t end = std::min(round_down(begin, kChunk) + kChunk, part.range.end);
      chunks.push_back({&part, {begin, end}});
      begin = end;
    }
  }
  run_parallel_tasks(chunks.size(), [&](size_t i) {
    fill_chunk(chunks[i]);
    const ElementRange& range = chunks[i].range;
    const auto element_bytes = static_cast<int64_t>(chunks[i].part->values.element_size());
    add_work(work, (range.end - range.begin) * element_bytes);
  });
}

// Drawn on the CPU also for other devices, one part at a time, so that they start from the same
// values.
void fill_normal(const std::vector<RandomPart>& parts, WorkCount* work) {
  std::vector<RandomPart> on_host;
  for (const RandomPart& part : parts) {
    if (part.values.is_cpu()) {
      on_host.push_back(part);
      continue;
    }
    RandomPart drawn = part;
    drawn.values = torch::empty_like(part.values, torch::kCPU);
    fill_normal_on_host({drawn}, work);
    part.values.copy_(drawn.values);
  }
  fill_normal_on_host(on_host, work);
}

double stddev_of(const NamedParameter& parameter, const ModelConfig& config) {
  if (parameter.stddev > 0) return parameter.stddev;
  if (parameter.start != ParameterStart::kNormalResidual) return config.initializer_range;
  return config.initializer_range / std::sqrt(2.0 * static_cast<double>(config.num_hidden_layers));
}

void quantize_normal(uint64_t key, float stddev, Nf4Linear& linear) {
  const int64_t elements = linear.in_features() * linear.out_features();
  const torch::Tensor dense = torch::empty({elements}, linear.dense_dtype());
  fill_normal_on_host({{dense, stddev, key, {0, elements}}}, nullptr);
  ops::nf4_quantize(dense.view({linear.out_features(), linear.in_features()}), linear.weight());
}

// Their codes are those nearest to what a dense weight of the same name would start from.
void initialize_quantized(CausalLm& model, uint64_t seed, float stddev,
                          const WantedElements& wanted, WorkCount* work) {
  if (!model.config().gptq && !model.config().nf4) return;
  for (const NamedLinear& linear : model.linears()) {
    auto* const gptq = dynamic_cast<GptqLinear*>(linear.slot->get());
    auto* const nf4 = dynamic_cast<Nf4Linear*>(linear.slot->get());
    if (gptq == nullptr && nf4 == nullptr) continue;
    std::vector<NamedParameter> parameters;
    (*linear.slot)->append_parameters(linear.name, parameters);
    // Codes, scales and zeros follow from the same numbers: any of them needs all.
    const bool any = std::any_of(
        parameters.begin(), parameters.end(),
        [&](const NamedParameter& parameter) { return !wanted(parameter.name).empty(); });
    if (!any) continue;
    const uint64_t key = stream_key(seed, linear.name + ".weight");
    gptq != nullptr ? gptq->quantize_normal(key, stddev) : quantize_normal(key, stddev, *nf4);
    for (const NamedParameter& parameter : parameters) {
      add_work(work, static_cast<int64_t>(parameter.tensor->nbytes()));
    }
  }
}

}  // namespace

void initialize_randomly(CausalLm& model, uint64_t seed, const WantedElements& wanted,
                         WorkCount* work) {
  const torch::NoGradGuard no_grad;
  const ModelConfig& config = model.config();
  std::vector<RandomPart> random;
  for (const NamedParameter& parameter : model.parameters()) {
    const ElementRange range = wanted(parameter.name).within(parameter.tensor->numel());
    if (parameter.packed || range.empty()) continue;
    if (parameter.start == ParameterStart::kOnes) {
      parameter.tensor->fill_(1.0);
    } else if (parameter.start == ParameterStart::kZeros) {
      parameter.tensor->zero_();
    } else if (parameter.start == ParameterStart::kLogOfPlace) {
      parameter.tensor->copy_(torch::arange(1, parameter.tensor->numel() + 1).log());
    } else {
      advise_huge_pages(*parameter.tensor);
      random.push_back({parameter.tensor->view(-1).slice(0, range.begin, range.end),
                        static_cast<float>(stddev_of(parameter, config)),
                        stream_key(seed, parameter.name), range});
    }
  }
  fill_normal(random, work);
  initialize_quantized(model, seed, static_cast<float>(config.initializer_range), wanted, work);
  if (config.pad_token_id && !wanted(std::string(model.names().embedding) + ".weight").empty())
    model.embedding().select(0, *config.pad_token_id).zero_();
}

}  // namespace sftbench
