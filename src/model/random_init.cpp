// Hugging Face's initialiser (PreTrainedModel._init_weights), drawn from a stream of its own for
// each parameter.
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "model/gptq_linear.h"
#include "model/huge_pages.h"
#include "model/parallel_tasks.h"
#include "model/philox_normal.h"
#include "sftbench/base/digest.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {
namespace {

constexpr int64_t kChunk = 16384;  // numbers drawn at a time: they stay in the L2 cache
static_assert(kChunk % kNormalBlock == 0);

uint64_t stream_key(uint64_t seed, const std::string& name) {
  return std::stoull(digest(std::to_string(seed) + ":" + name).substr(0, 16), nullptr, 16);
}

// Numbers [begin, end) of a parameter's stream, into the same places of the parameter.
struct Chunk {
  const torch::Tensor* flat;
  uint64_t key;
  int64_t begin;
  int64_t end;
};

void fill_chunk(const Chunk& chunk, float stddev) {
  alignas(64) std::array<float, kChunk> numbers;
  const int64_t wanted = chunk.end - chunk.begin;
  const int64_t drawn = (wanted + kNormalBlock - 1) / kNormalBlock * kNormalBlock;
  fill_standard_normal(chunk.key, static_cast<uint64_t>(chunk.begin), numbers.data(), drawn);
  for (int64_t i = 0; i < drawn; ++i) numbers[static_cast<size_t>(i)] *= stddev;
  const torch::Tensor source = torch::from_blob(numbers.data(), {wanted}, torch::kFloat32);
  chunk.flat->slice(0, chunk.begin, chunk.end).copy_(source);
}

struct RandomParameter {
  torch::Tensor* tensor;
  uint64_t key;
};

// normal(0, stddev) for parameters in contiguous host memory.
void fill_normal_on_host(const std::vector<RandomParameter>& parameters, float stddev) {
  std::vector<torch::Tensor> flat;
  for (const RandomParameter& parameter : parameters) flat.push_back(parameter.tensor->view(-1));
  std::vector<Chunk> chunks;
  for (size_t i = 0; i < parameters.size(); ++i) {
    for (int64_t begin = 0; begin < flat[i].numel(); begin += kChunk) {
      chunks.push_back(
          {&flat[i], parameters[i].key, begin, std::min(begin + kChunk, flat[i].numel())});
    }
  }
  run_parallel_tasks(chunks.size(), [&](size_t i) { fill_chunk(chunks[i], stddev); });
}

// Drawn on the CPU also for other devices, one parameter at a time, so that they start from the
// same values.
void fill_normal(const std::vector<RandomParameter>& parameters, float stddev) {
  std::vector<RandomParameter> on_host;
  for (const RandomParameter& parameter : parameters) {
    if (parameter.tensor->is_cpu() && parameter.tensor->is_contiguous()) {
      on_host.push_back(parameter);
      continue;
    }
    torch::Tensor values =
        torch::empty(parameter.tensor->sizes(), parameter.tensor->options().device(torch::kCPU));
    fill_normal_on_host({{&values, parameter.key}}, stddev);
    parameter.tensor->copy_(values);
  }
  fill_normal_on_host(on_host, stddev);
}

bool is_bias(const std::string& name) {
  return name.ends_with(".bias");
}

// "norm.weight" ends all of them: model.norm, input_layernorm, post_attention_layernorm.
bool is_norm(const std::string& name) {
  return name.ends_with("norm.weight");
}

// Their codes are those nearest to what a dense weight of the same name would start from.
void initialise_quantised(CausalLm& model, uint64_t seed, float stddev,
                          const ParameterFilter& wanted) {
  for (const NamedLinear& linear : model.linears()) {
    if (!wanted(linear.name + ".qweight")) continue;
    if (auto* quantised = dynamic_cast<GptqLinear*>(linear.slot->get()))
      quantised->quantise_normal(stream_key(seed, linear.name + ".weight"), stddev);
  }
}

}  // namespace

void initialise_randomly(CausalLm& model, const Json& hf_config, uint64_t seed,
                         const ParameterFilter& wanted) {
  const torch::NoGradGuard no_grad;
  const ModelConfig config = parse_model_config(hf_config);
  std::vector<RandomParameter> random;
  for (const NamedParameter& parameter : model.parameters()) {
    if (parameter.packed_weights >= 0 || !wanted(parameter.name)) continue;
    if (is_norm(parameter.name)) {
      parameter.tensor->fill_(1.0);
    } else if (is_bias(parameter.name)) {
      parameter.tensor->zero_();
    } else {
      advise_huge_pages(*parameter.tensor);
      random.push_back({parameter.tensor, stream_key(seed, parameter.name)});
    }
  }
  fill_normal(random, static_cast<float>(config.initializer_range));
  initialise_quantised(model, seed, static_cast<float>(config.initializer_range), wanted);
  const NamedParameter embedding = model.parameters().front();
  if (config.pad_token_id && wanted(embedding.name))
    embedding.tensor->select(0, *config.pad_token_id).zero_();
}

}  // namespace sftbench
