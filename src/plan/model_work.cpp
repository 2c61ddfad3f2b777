#include "plan/model_work.h"

#include <algorithm>
#include <string>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/checkpoint/model_config.h"

namespace sftbench {
namespace {

constexpr int64_t kAlignmentBytes = 256;
// Of the two matrix products of a causal attention's forward pass; its backward pass has five of
// them, since flash attention computes the scores again (Dao 2023, arXiv 2307.08691).
constexpr double kAttentionBackward = 2.5;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

struct Linear {
  const char* name;
  int64_t in;
  int64_t out;
  bool bias;
};

struct Sizes {
  explicit Sizes(const ModelConfig& c)
      : hidden(c.hidden_size),
        inner(c.intermediate_size),
        queries(c.num_attention_heads * c.head_dim),
        keys(c.num_key_value_heads * c.head_dim) {
    linears = {{"q_proj", hidden, queries, c.attention_bias},
               {"k_proj", hidden, keys, c.attention_bias},
               {"v_proj", hidden, keys, c.attention_bias},
               {"o_proj", queries, hidden, c.attention_bias},
               {"gate_proj", hidden, inner, c.mlp_bias},
               {"up_proj", hidden, inner, c.mlp_bias},
               {"down_proj", inner, hidden, c.mlp_bias}};
  }

  enum { kQuery, kKey, kValue, kOutput, kGate, kUp, kDown };  // numbers of the linears
  int64_t hidden, inner, queries, keys;
  std::vector<Linear> linears;
};

bool is_target(const LoraPlan& lora, const std::string& name) {
  return std::any_of(lora.target_modules.begin(), lora.target_modules.end(),
                     [&name](const std::string& target) {
                       return target == "all-linear" || target == name ||
                              (target.size() > name.size() &&
                               target.compare(target.size() - name.size(), name.size(), name) == 0);
                     });
}

UnitTensors layer_tensors(const TrainingJob& job, const Sizes& sizes) {
  UnitTensors unit;
  std::vector<int64_t>& base = job.tuning == "full" ? unit.trained : unit.frozen;
  for (const Linear& linear : sizes.linears) {
    base.push_back(linear.in * linear.out);
    if (linear.bias) base.push_back(linear.out);
    if (job.tuning != "lora" || !is_target(job.lora, linear.name)) continue;
    unit.trained.push_back(job.lora.rank * linear.in);
    unit.trained.push_back(job.lora.rank * linear.out);
  }
  base.push_back(sizes.hidden);
  base.push_back(sizes.hidden);
  return unit;
}

UnitTensors root_tensors(const TrainingJob& job, const ModelConfig& config) {
  UnitTensors unit;
  std::vector<int64_t>& base = job.tuning == "full" ? unit.trained : unit.frozen;
  base.push_back(config.vocab_size * config.hidden_size);
  base.push_back(config.hidden_size);
  if (!config.tie_word_embeddings) base.push_back(config.vocab_size * config.hidden_size);
  return unit;
}

// Products of weights with every position, attention, and what of them is computed again.
UnitFlops layer_flops(const TrainingJob& job, const Sizes& sizes, double positions,
                      Recompute recompute) {
  double products = 0;
  double trained = 0;
  for (const Linear& linear : sizes.linears) {
    const double one = 2.0 * static_cast<double>(linear.in * linear.out) * positions;
    products += one;
    if (job.tuning == "full") trained += one;
    if (job.tuning != "lora" || !is_target(job.lora, linear.name)) continue;
    const double adapter =
        2.0 * static_cast<double>(job.lora.rank * (linear.in + linear.out)) * positions;
    products += adapter;
    trained += adapter;
  }
  const double attention = 2 * positions * static_cast<double>(job.data.model_max_length) *
                           static_cast<double>(sizes.queries);
  UnitFlops flops = {products + attention, 0, products + trained + kAttentionBackward * attention};
  const auto product = [&](size_t number) {
    const Linear& linear = sizes.linears[number];
    return 2.0 * static_cast<double>(linear.in * linear.out) * positions;
  };
  // Nothing needs the result of a recomputed layer's last product.
  const double up_to_last_product = flops.forward - product(Sizes::kDown);
  switch (recompute) {
    case Recompute::kJob:
      if (job.activations.gradient_checkpointing) flops.recomputed = up_to_last_product;
      break;
    case Recompute::kTorchLayers:
      flops.recomputed = up_to_last_product;
      break;
    case Recompute::kTorchEveryOtherProduct:
      flops.recomputed = product(Sizes::kKey) + product(Sizes::kOutput) + product(Sizes::kUp);
      break;
  }
  return flops;
}

UnitFlops head_flops(const TrainingJob& job, const ModelConfig& config, double positions) {
  const double product =
      2.0 * static_cast<double>(config.vocab_size * config.hidden_size) * positions;
  return {product, 0, job.tuning == "full" ? 2 * product : product};
}

// Inputs of norms and products, what attention and SwiGLU need again.
double kept_values(const Sizes& s) {
  return static_cast<double>(4 * s.hidden + 2 * s.queries + 2 * s.keys + 3 * s.inner);
}

double kept_when_recomputed(const TrainingJob& job, const Sizes& s, Recompute recompute) {
  if (recompute == Recompute::kTorchEveryOtherProduct) {
    return static_cast<double>(2 * s.hidden + 2 * s.queries + s.keys + s.inner);
  }
  const bool again = recompute == Recompute::kTorchLayers || job.activations.gradient_checkpointing;
  return again ? static_cast<double>(s.hidden) : kept_values(s);
}

}  // namespace

int64_t flat_elements(const std::vector<int64_t>& tensors, int64_t element_bytes, int64_t shards) {
  const int64_t alignment = std::max<int64_t>(1, kAlignmentBytes / element_bytes);
  int64_t end = 0;
  for (const int64_t elements : tensors) end = round_up(end, alignment) + elements;
  return round_up((end + shards - 1) / shards, alignment) * shards;
}

ModelWork model_work(const TrainingJob& job, Recompute recompute) {
  if (job.tuning != "full" && job.tuning != "lora") {
    throw RunError(ReasonCode::kUnsupported,
                   "tuning " + job.tuning + ": its cost is not predicted; full and lora are");
  }
  const ModelConfig config = parse_model_config(job.model.hf_config, job.model.name);
  const Sizes sizes(config);
  ModelWork work;
  work.layers = config.num_hidden_layers;
  // Of the last layer everything is still there when its backward pass comes.
  work.recomputed_layers = recompute == Recompute::kJob ? work.layers - 1 : work.layers;
  work.vocabulary = config.vocab_size;
  work.positions = job.batches.per_device_batch_size * job.data.model_max_length;
  work.root = root_tensors(job, config);
  work.layer = layer_tensors(job, sizes);
  const auto positions = static_cast<double>(work.positions);
  work.layer_flops = layer_flops(job, sizes, positions, recompute);
  work.head_flops = head_flops(job, config, positions);
  work.kept_per_position = kept_values(sizes);
  work.kept_when_recomputed = kept_when_recomputed(job, sizes, recompute);
  return work;
}

}  // namespace sftbench
