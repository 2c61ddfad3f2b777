#include "predict/model_work.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "predict/adapter_work.h"
#include "sftbench/base/error.h"
#include "sftbench/families/family.h"
#include "sftbench/families/model_config.h"
#include "sftbench/families/model_shape.h"
#include "sftbench/plan/context_cost.h"
#include "sftbench/plan/known_model.h"

namespace sftbench {
namespace {

constexpr int64_t kAlignmentBytes = 256;
// Of a position and a value of a Mamba-2 state, as engine/step_batches.h counts.
constexpr double kFlopsPerStateValue = 7;

int64_t round_up(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// MLPs run tile by tile, and again in the backward pass (ops/row_tiles.h).
bool is_tiled(const TrainingJob& job) {
  return job.activations.mlp_tiles > 1;
}

void put(const TrainingJob& job, const TensorShape& tensor, UnitTensors& unit) {
  (trains(job, tensor.name) ? unit.trained : unit.frozen).push_back({tensor.name, tensor.sizes});
}

UnitTensors layer_tensors(const TrainingJob& job, const LayerShape& layer) {
  UnitTensors unit;
  const bool quantized = row_of(job.tuning).quantized_weights;
  for (const TensorShape& tensor : layer.tensors) {
    const bool router = tensor.name.ends_with(".gate.weight");
    if (quantized && tensor.sizes.size() > 1 && !router) {
      unit.quantized += static_cast<double>(tensor.elements());
    } else {
      put(job, tensor, unit);
    }
  }
  if (!row_of(job.tuning).adds_adapters) return unit;
  for (const LinearShape& linear : layer.linears) {
    if (!is_target(job.lora, linear.name)) continue;
    const int64_t rank = layer_rank(job, linear.name);
    unit.trained.push_back({linear.name + ".lora_A.weight", {rank, linear.in}});
    unit.trained.push_back({linear.name + ".lora_B.weight", {linear.out, rank}});
    if (job.lora.use_dora)
      unit.trained.push_back({linear.name + ".lora_magnitude_vector.weight", {linear.out}});
  }
  return unit;
}

std::string output_parameter(const ModelConfig& config) {
  return std::string(family_of(config).names.output) + ".weight";
}

// As in peft a tied output projection is one of its own beside an embedding that trains, and the
// other way round.
UnitTensors root_tensors(const TrainingJob& job, const ModelShape& shape,
                         const ModelConfig& config) {
  UnitTensors unit;
  for (const TensorShape& tensor : shape.before) put(job, tensor, unit);
  for (const TensorShape& tensor : shape.after) put(job, tensor, unit);
  const TensorShape output = {output_parameter(config), shape.before.front().sizes};
  const bool trains_rows = trains(job, shape.before.front().name) || trains(job, output.name);
  if (config.tie_word_embeddings && !trains_weights(job) && trains_rows) put(job, output, unit);
  for (const AdaptedLinear& linear : adapted_tokens(job, config)) {
    const bool looks_up = linear.in == config.vocab_size;
    unit.trained.push_back({linear.name + (looks_up ? ".lora_embedding_A" : ".lora_A.weight"),
                            {linear.rank, linear.in}});
    unit.trained.push_back({linear.name + (looks_up ? ".lora_embedding_B" : ".lora_B.weight"),
                            {linear.out, linear.rank}});
  }
  if (job.tuning == TuningMethod::kPrompt) {
    unit.trained.push_back(
        {"prompt_encoder.embedding.weight", {job.prompt.virtual_tokens, config.hidden_size}});
  }
  return unit;
}

double product_flops(const LinearShape& linear, double positions) {
  return 2.0 * static_cast<double>(linear.in * linear.out) * positions;
}

// What torchtitan's "selective op" computes again.
bool is_every_other_product(const LinearShape& linear) {
  return linear.name.ends_with("k_proj") || linear.name.ends_with("o_proj") ||
         linear.name.ends_with("up_proj");
}

// Tokens of a row: prompt tuning puts its own in front.
int64_t row_length(const TrainingJob& job) {
  const bool prompted = job.tuning == TuningMethod::kPrompt;
  return job.data.model_max_length + (prompted ? job.prompt.virtual_tokens : 0);
}

// Attention without tiles holds those that its mask hides, too. Rows that ranks divide have tiles.
double score_count(const TrainingJob& job, const LayerShape& layer, int64_t head_size) {
  if (job.kernels.flash_attention || job.parallel.context_ranks > 1 || head_size == 0) return 0;
  const int64_t heads = layer.query_width / head_size;
  return static_cast<double>(heads * row_length(job));
}

bool has_magnitude(const TrainingJob& job, const LinearShape& linear) {
  return row_of(job.tuning).adds_adapters && job.lora.use_dora && is_target(job.lora, linear.name);
}

// Weights of the product that a recomputation leaves out: a magnitude's gradient needs it.
int64_t last_product(const TrainingJob& job, const LayerShape& layer) {
  const bool read =
      std::any_of(layer.linears.begin(), layer.linears.end(), [&](const LinearShape& linear) {
        return linear.input == kMlpInside && has_magnitude(job, linear);
      });
  return read ? 0 : layer.last_product;
}

// Each position sees half of the row, or of a window that is shorter than the row.
double attention_flops(const TrainingJob& job, const LayerShape& layer, double positions) {
  const auto length = static_cast<double>(row_length(job));
  const auto window = static_cast<double>(layer.window);
  const double seen =
      window > 0 && window < length ? window * (1 - window / (2 * length)) : length / 2;
  return 4 * positions * seen * static_cast<double>(layer.query_width);
}

double scan_flops(const LayerShape& layer, double positions) {
  return kFlopsPerStateValue * positions * static_cast<double>(layer.scanned_values);
}

// Products of weights with every position, attention, the scan, and what of them is computed again.
UnitFlops layer_flops(const TrainingJob& job, const LayerShape& layer, double positions,
                      Recompute recompute) {
  double products = 0;
  double trained = 0;
  double every_other = 0;
  double norms = 0;  // of DoRA, whatever the number of positions
  for (const LinearShape& linear : layer.linears) {
    const double one = product_flops(linear, positions);
    products += one;
    if (is_every_other_product(linear)) every_other += one;
    if (trains(job, linear.name + ".weight")) trained += one;
    if (!row_of(job.tuning).adds_adapters || !is_target(job.lora, linear.name)) continue;
    const int64_t rank = layer_rank(job, linear.name);
    const double adapter = 2.0 * static_cast<double>(rank * (linear.in + linear.out)) * positions;
    products += adapter;
    trained += adapter;
    if (!job.lora.use_dora) continue;
    if (job.lora.dropout > 0) products += one;  // of what is dropped, and of what is not
    norms += 2.0 * static_cast<double>(rank * linear.in * linear.out);
  }
  const ExpertsShape& experts = layer.experts;
  const double routed = 2.0 * static_cast<double>(experts.routed + experts.active) * positions;
  products += routed;
  if (trains_weights(job)) trained += routed;
  const double attention = attention_flops(job, layer, positions);
  const double scan = scan_flops(layer, positions);
  UnitFlops flops = {products + attention + scan + norms, 0,
                     products + trained + kAttentionBackward * attention + kScanBackward * scan};
  const double up_to_last_product =
      flops.forward - 2.0 * static_cast<double>(last_product(job, layer)) * positions;
  switch (recompute) {
    case Recompute::kJob:
      if (job.activations.gradient_checkpointing) {
        flops.recomputed = up_to_last_product;
      } else if (is_tiled(job)) {
        flops.recomputed = 2.0 * static_cast<double>(layer.mlp.first_products) * positions;
      }
      break;
    case Recompute::kTorchLayers:
      flops.recomputed = up_to_last_product;
      break;
    case Recompute::kTorchEveryOtherProduct:
      flops.recomputed = every_other;
      break;
  }
  return flops;
}

UnitFlops head_flops(const TrainingJob& job, const ModelConfig& config, double positions) {
  const double product =
      2.0 * static_cast<double>(config.vocab_size * config.hidden_size) * positions;
  double adapter = 0;
  for (const AdaptedLinear& linear : adapted_tokens(job, config)) {
    if (linear.in == config.hidden_size)
      adapter += 2.0 * static_cast<double>(linear.rank * (linear.in + linear.out)) * positions;
  }
  const double trained = trains(job, output_parameter(config)) ? product : 0;
  return {product + adapter, 0, product + trained + 2 * adapter};
}

bool is_trained(const TrainingJob& job, const LinearShape& linear) {
  return trains(job, linear.name + ".weight") ||
         (row_of(job.tuning).adds_adapters && is_target(job.lora, linear.name));
}

// Inputs that no linear keeps, because none that reads them has a trained weight; and their widths.
std::map<int, int64_t> inputs_not_kept(const TrainingJob& job, const LayerShape& layer) {
  std::map<int, int64_t> width_of_input;
  for (const LinearShape& linear : layer.linears) {
    if (linear.input != LinearShape::kKeptAnyway) width_of_input[linear.input] = linear.in;
  }
  for (const LinearShape& linear : layer.linears) {
    if (is_trained(job, linear)) width_of_input.erase(linear.input);
  }
  return width_of_input;
}

// An adapter with dropout keeps what is left of its input, also where something else keeps the
// input.
int64_t kept_by_dropout(const TrainingJob& job, const LayerShape& layer) {
  if (!row_of(job.tuning).adds_adapters || job.lora.dropout == 0) return 0;
  int64_t kept = 0;
  for (const LinearShape& linear : layer.linears) {
    if (linear.input == LinearShape::kKeptAnyway && is_target(job.lora, linear.name))
      kept += linear.in;
  }
  return kept;
}

// DoRA keeps what its magnitudes multiply.
int64_t kept_by_magnitudes(const TrainingJob& job, const LayerShape& layer) {
  int64_t kept = 0;
  for (const LinearShape& linear : layer.linears)
    if (has_magnitude(job, linear)) kept += linear.out;
  return kept;
}

// Of the layer; of a tiled MLP the input, and nothing inside.
double kept_values(const TrainingJob& job, const LayerShape& layer) {
  int64_t kept = layer.kept_values + kept_by_dropout(job, layer) + kept_by_magnitudes(job, layer);
  for (const auto& [input, width] : inputs_not_kept(job, layer)) {
    const bool of_mlp = input == kMlpInput || input == kMlpInside;
    if (!of_mlp || !is_tiled(job)) kept -= width;
  }
  if (is_tiled(job)) kept -= layer.mlp.kept_values;
  if (!trains_weights(job)) kept -= layer.experts.row_values + layer.experts.inner_values;
  return static_cast<double>(kept);
}

// By the MLP and the norm before it. Unknown, and 0, where experts stand in its place.
double kept_by_mlp(const TrainingJob& job, const LayerShape& layer, int64_t hidden) {
  const MlpShape& mlp = layer.mlp;
  if (mlp.inner_values == 0) return 0;
  if (is_tiled(job)) return static_cast<double>(2 * hidden);
  int64_t kept = 2 * hidden + mlp.kept_values;
  for (const auto& [input, width] : inputs_not_kept(job, layer)) {
    if (input == kMlpInput || input == kMlpInside) kept -= width;
  }
  return static_cast<double>(kept);
}

// Beside what is kept, the most of three states. Gradients of the results are there first. Those of
// the products of gate and up follow, when the results are gone. Those of gate and up come last,
// when trained experts keep no product.
int64_t backward_values_of_experts(const TrainingJob& job, const ExpertsShape& experts,
                                   int64_t hidden) {
  if (experts.all == 0) return 0;
  const int64_t rows = experts.row_values, inner = experts.inner_values;
  const int64_t of_halves = (trains_weights(job) ? 2 : 3) * inner - rows;
  return hidden + std::max({rows, inner, of_halves});
}

// The backward pass holds most, beside what is kept, when the gradients of the MLP's first products
// are there. What its last product read is gone then. A tile of an MLP has its own values,
// gradients, input and result, beside the gradients of all inputs and results.
double backward_values(const TrainingJob& job, const LayerShape& layer, int64_t hidden) {
  const MlpShape& mlp = layer.mlp;
  if (is_tiled(job)) {
    const int64_t of_tiles = mlp.kept_values - mlp.inner_values + mlp.gradients + 2 * hidden;
    const double tile =
        static_cast<double>(of_tiles) / static_cast<double>(job.activations.mlp_tiles);
    return std::max(static_cast<double>(layer.backward_values),
                    static_cast<double>(2 * hidden) + tile);
  }
  const bool kept = !inputs_not_kept(job, layer).contains(kMlpInside);
  const int64_t of_mlp = hidden + mlp.gradients - (kept ? mlp.inner_values : 0);
  const int64_t of_experts = backward_values_of_experts(job, layer.experts, hidden);
  return static_cast<double>(std::max({layer.backward_values, of_mlp, of_experts}));
}

double kept_when_recomputed(const TrainingJob& job, const ModelConfig& config,
                            const LayerShape& layer, Recompute recompute) {
  if (recompute == Recompute::kTorchEveryOtherProduct) {
    const AttentionConfig& attention = config.attention;
    return static_cast<double>(2 * config.hidden_size + 2 * attention.query_width() +
                               attention.key_value_width() + config.intermediate_size);
  }
  const bool again = recompute == Recompute::kTorchLayers || job.activations.gradient_checkpointing;
  return static_cast<double>(again ? config.hidden_size : layer.kept_values);
}

LinearWork linear_work(const TrainingJob& job, const LinearShape& linear) {
  LinearWork work;
  work.in = static_cast<double>(linear.in);
  work.out = static_cast<double>(linear.out);
  work.trained = trains(job, linear.name + ".weight");
  if (row_of(job.tuning).adds_adapters && is_target(job.lora, linear.name)) {
    work.adapter_rank = static_cast<double>(layer_rank(job, linear.name));
    work.has_magnitude = job.lora.use_dora;
  }
  return work;
}

// An expert has products up to its inner width and one back; together they have these weights.
LinearWork expert_work(const TrainingJob& job, const ModelConfig& config,
                       const ExpertsShape& experts) {
  LinearWork work;
  const auto count = static_cast<double>(config.experts->count);
  work.in = static_cast<double>(config.hidden_size);
  work.out = static_cast<double>(experts.all) / count / work.in;
  work.count = count;
  work.share_of_positions = static_cast<double>(experts.active) / static_cast<double>(experts.all);
  work.trained = trains_weights(job);
  return work;
}

void put_linears(const TrainingJob& job, const ModelConfig& config, const LayerShape& layer,
                 ModelWork& work) {
  for (const LinearShape& linear : layer.linears) {
    work.linears.push_back(linear_work(job, linear));
    if (linear.out == config.intermediate_size) work.activated = work.linears.back().out;
  }
  const ExpertsShape& experts = layer.experts;
  if (!config.experts || experts.all == 0) return;
  work.linears.push_back(
      {static_cast<double>(config.hidden_size),
       static_cast<double>(experts.routed) / static_cast<double>(config.hidden_size), 1, 1,
       trains_weights(job), 0});
  work.linears.push_back(expert_work(job, config, experts));
  work.experts = static_cast<double>(config.experts->count);
  work.activated += static_cast<double>(config.experts->width * config.experts->per_token);
}

void put_seconds(const TrainingJob& job, const ModelConfig& config, const LayerShape& layer,
                 ModelWork& work) {
  const auto positions = static_cast<double>(work.positions);
  put_linears(job, config, layer, work);
  work.attention_flops = attention_flops(job, layer, positions);
  work.scan_flops = scan_flops(layer, positions);
  work.last_product = static_cast<double>(last_product(job, layer));
  work.hidden = static_cast<double>(config.hidden_size);
  if (config.rotary && layer.query_width > 0) {
    work.rotated = static_cast<double>(layer.query_width + config.attention.key_value_width());
  }
  work.head_size = static_cast<double>(config.attention.head_dim);
  work.layer_norm = config.layer_norm;
  work.quantized_elements = work.layer.quantized;
  work.weight_elements = static_cast<double>(layer.parameters());
}

ModelWork layer_work(const TrainingJob& job, const ModelConfig& config, const LayerShape& layer,
                     Recompute recompute) {
  ModelWork work;
  work.positions = job.batches.per_device_batch_size * own_length(row_length(job), job);
  const auto positions = static_cast<double>(work.positions);
  work.layer = layer_tensors(job, layer);
  work.layer_flops = layer_flops(job, layer, positions, recompute);
  const bool tiled = is_tiled(job) && recompute == Recompute::kJob;
  work.kept_per_position =
      static_cast<double>(layer.kept_values - (tiled ? layer.mlp.kept_values : 0));
  work.kept_by_engine = kept_values(job, layer);
  work.kept_at_most = work.kept_by_engine;
  work.kept_by_mlp = kept_by_mlp(job, layer, config.hidden_size);
  work.backward_values = backward_values(job, layer, config.hidden_size);
  work.kept_when_recomputed = kept_when_recomputed(job, config, layer, recompute);
  work.scores = positions * score_count(job, layer, config.attention.head_dim);
  if (row_of(job.tuning).quantized_weights) {
    for (const LinearShape& linear : layer.linears)
      work.largest_weight =
          std::max(work.largest_weight, static_cast<double>(linear.in * linear.out));
    if (config.experts) {
      work.largest_weight = std::max(
          work.largest_weight, static_cast<double>(config.experts->width * config.hidden_size));
    }
  }
  put_seconds(job, config, layer, work);
  return work;
}

// --- layers that differ -------------------------------------------------------------------------

void add_tensors(const std::vector<TrainedShape>& tensors, double share,
                 std::vector<TrainedShape>& sum) {
  for (TrainedShape tensor : tensors) {
    const double rows = std::round(static_cast<double>(tensor.sizes.front()) * share);
    tensor.sizes.front() = std::max<int64_t>(1, static_cast<int64_t>(rows));
    sum.push_back(std::move(tensor));
  }
}

void add_share(const ModelWork& kind, double share, ModelWork& sum) {
  add_tensors(kind.layer.frozen, share, sum.layer.frozen);
  add_tensors(kind.layer.trained, share, sum.layer.trained);
  sum.layer.quantized += share * kind.layer.quantized;
  for (LinearWork linear : kind.linears) {
    linear.count *= share;
    sum.linears.push_back(linear);
  }
  sum.layer_flops.forward += share * kind.layer_flops.forward;
  sum.layer_flops.recomputed += share * kind.layer_flops.recomputed;
  sum.layer_flops.backward += share * kind.layer_flops.backward;
  for (double ModelWork::*figure :
       {&ModelWork::kept_per_position, &ModelWork::kept_by_engine, &ModelWork::kept_when_recomputed,
        &ModelWork::scores, &ModelWork::attention_flops, &ModelWork::scan_flops,
        &ModelWork::last_product, &ModelWork::rotated, &ModelWork::activated, &ModelWork::experts,
        &ModelWork::quantized_elements, &ModelWork::weight_elements}) {
    sum.*figure += share * kind.*figure;
  }
  for (double ModelWork::*figure : {&ModelWork::kept_at_most, &ModelWork::kept_by_mlp,
                                    &ModelWork::backward_values, &ModelWork::largest_weight}) {
    sum.*figure = std::max(sum.*figure, kind.*figure);
  }
}

// Layers of several kinds count as their mean: the sum over a step is right, the order is not.
ModelWork mean_layer(const TrainingJob& job, const KnownModel& model, Recompute recompute) {
  const std::vector<LayerShape>& layers = model.shape.layers;
  const auto work_of = [&](const LayerKind& kind) {
    return layer_work(job, model.config, layers[kind.layer], recompute);
  };
  if (model.kinds.size() == 1) return work_of(model.kinds.front());
  ModelWork mean;
  for (const LayerKind& kind : model.kinds) {
    const ModelWork work = work_of(kind);
    mean.positions = work.positions;
    mean.hidden = work.hidden;
    mean.head_size = work.head_size;
    mean.layer_norm = work.layer_norm;
    add_share(work, static_cast<double>(kind.count) / static_cast<double>(layers.size()), mean);
  }
  return mean;
}

}  // namespace

int64_t flat_elements(const std::vector<TrainedShape>& tensors, int64_t element_bytes,
                      int64_t shards) {
  const int64_t alignment = std::max<int64_t>(1, kAlignmentBytes / element_bytes);
  int64_t end = 0;
  for (const TrainedShape& tensor : tensors) end = round_up(end, alignment) + tensor.elements();
  return round_up((end + shards - 1) / shards, alignment) * shards;
}

ModelWork model_work(const TrainingJob& job, Recompute recompute) {
  if (job.parallel.expert_ranks > 1) {
    throw RunError(ReasonCode::kUnsupported,
                   "fast_moe " + std::to_string(job.parallel.expert_ranks) +
                       ": the cost of experts on several ranks is not predicted; that of fast_moe "
                       "0 is");
  }
  const KnownModel& model = known_model(job.model);
  const ModelConfig& config = model.config;
  ModelWork work = mean_layer(job, model, recompute);
  work.layers = config.num_hidden_layers;
  // Of the last layer everything is still there when its backward pass comes, but for what tiles
  // leave out.
  const bool all = recompute != Recompute::kJob || !job.activations.gradient_checkpointing;
  work.recomputed_layers = all ? work.layers : work.layers - 1;
  work.vocabulary = config.vocab_size;
  work.narrow_loss = family_of(config).model_class == ModelClass::kGptBigCode &&
                     !config.transposed_linears;  // GPT-2 has the usual loss
  work.root = root_tensors(job, model.shape, config);
  work.trains_head = trains(job, output_parameter(config));
  work.head_flops = head_flops(job, config, static_cast<double>(work.positions));
  return work;
}

}  // namespace sftbench
