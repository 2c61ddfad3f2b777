// Hugging Face's initialiser (PreTrainedModel._init_weights), drawn from a stream of its own for
// each parameter.
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <string>

#include "model/huge_pages.h"
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

void fill_chunk(torch::Tensor& flat, int64_t begin, int64_t end, uint64_t key, float stddev) {
  alignas(64) std::array<float, kChunk> numbers;
  const int64_t wanted = end - begin;
  const int64_t drawn = (wanted + kNormalBlock - 1) / kNormalBlock * kNormalBlock;
  fill_standard_normal(key, static_cast<uint64_t>(begin), numbers.data(), drawn);
  for (int64_t i = 0; i < drawn; ++i) numbers[static_cast<size_t>(i)] *= stddev;
  flat.narrow(0, begin, wanted).copy_(torch::from_blob(numbers.data(), {wanted}, torch::kFloat32));
}

// normal(0, stddev). Drawn on the CPU also for other devices, so that they start from the same
// values.
void fill_normal(torch::Tensor& parameter, uint64_t key, double stddev) {
  torch::Tensor values =
      parameter.is_cpu() && parameter.is_contiguous()
          ? parameter
          : torch::empty(parameter.sizes(), parameter.options().device(torch::kCPU));
  torch::Tensor flat = values.view(-1);
  const int64_t numel = flat.numel(), chunks = (numel + kChunk - 1) / kChunk;
  at::parallel_for(0, chunks, 1, [&](int64_t begin, int64_t end) {
    const torch::NoGradGuard no_grad;  // the guard is per thread
    for (int64_t chunk = begin; chunk < end; ++chunk) {
      fill_chunk(flat, chunk * kChunk, std::min((chunk + 1) * kChunk, numel), key,
                 static_cast<float>(stddev));
    }
  });
  if (!values.is_same(parameter)) parameter.copy_(values);
}

bool is_bias(const std::string& name) {
  return name.ends_with(".bias");
}

// "norm.weight" ends all of them: model.norm, input_layernorm, post_attention_layernorm.
bool is_norm(const std::string& name) {
  return name.ends_with("norm.weight");
}

}  // namespace

void initialise_randomly(CausalLm& model, const Json& hf_config, uint64_t seed) {
  const torch::NoGradGuard no_grad;
  const ModelConfig config = parse_model_config(hf_config);
  const std::vector<NamedParameter> parameters = model.parameters();
  for (const NamedParameter& parameter : parameters) advise_huge_pages(*parameter.tensor);
  for (const NamedParameter& parameter : parameters) {
    if (is_norm(parameter.name)) {
      parameter.tensor->fill_(1.0);
    } else if (is_bias(parameter.name)) {
      parameter.tensor->zero_();
    } else {
      fill_normal(*parameter.tensor, stream_key(seed, parameter.name), config.initializer_range);
    }
    if (parameter.name == "model.embed_tokens.weight" && config.pad_token_id) {
      parameter.tensor->select(0, *config.pad_token_id).zero_();
    }
  }
}

}  // namespace sftbench
