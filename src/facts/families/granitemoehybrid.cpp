// Granite 4 (IBM 2025; GraniteMoeHybridConfig, GraniteMoeHybridForCausalLM): Mamba-2 or attention
// in each layer, then a shared MLP, beside a mixture of experts if there are any.
#include <algorithm>
#include <cmath>
#include <limits>

#include "families/config_parts.h"
#include "families/llama.h"
#include "families/shape_parts.h"
#include "sftbench/base/quantity_text.h"

namespace sftbench {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// transformers 4 and 5 spell the two types differently; without a list all layers are Mamba-2.
void read_mixers(ConfigFields& fields, ModelConfig& config) {
  const auto layers = static_cast<size_t>(config.num_hidden_layers);
  const Json* types = fields.find("layer_types");
  if (types == nullptr) types = fields.find("layers_block_type");
  if (types == nullptr) {
    config.mamba_layers.assign(layers, true);
    return;
  }
  if (!types->is_array() || types->size() != layers) {
    fields.add("layer_types", "found " + shown(*types), "a list of " + counted(layers, "type"));
    return;
  }
  for (const Json& type : *types) {
    const bool attention = type == "attention" || type == "full_attention";
    if (!attention && type != "mamba" && type != "linear_attention") {
      fields.add("layer_types", "found " + shown(type), "\"attention\" or \"mamba\"");
      return;
    }
    config.mamba_layers.push_back(!attention);
  }
}

// A number, or how transformers and Python write infinity in JSON.
double read_bound(ConfigFields& fields, const Json& value) {
  const Json* number = &value;
  if (value.is_object() && value.contains("__float__")) number = &value["__float__"];
  if (*number == "Infinity" || number->is_null()) return kInfinity;
  if (number->is_number() && number->get<double>() >= 0) return number->get<double>();
  fields.add("time_step_limit", "found " + shown(value), "a number of at least 0, or infinity");
  return 0.0;
}

void read_step_limits(ConfigFields& fields, MambaConfig& mamba) {
  mamba.most_step = kInfinity;
  const Json* limits = fields.find("time_step_limit");
  if (limits == nullptr) return;
  if (!limits->is_array() || limits->size() != 2) {
    fields.add("time_step_limit", "found " + shown(*limits), "two numbers");
    return;
  }
  mamba.least_step = read_bound(fields, limits->at(0));
  mamba.most_step = read_bound(fields, limits->at(1));
}

void read_mamba(ConfigFields& fields, ModelConfig& config) {
  MambaConfig mamba;
  mamba.heads = fields.extent("mamba_n_heads", 128);
  mamba.groups = fields.extent("mamba_n_groups", 1);
  mamba.state = fields.extent("mamba_d_state", 256);
  mamba.kernel = fields.extent("mamba_d_conv", 4);
  mamba.convolution_bias = fields.boolean("mamba_conv_bias", true);
  mamba.projection_bias = fields.boolean("mamba_proj_bias", false);
  read_step_limits(fields, mamba);
  const int64_t inner = fields.extent("mamba_expand", 2) * config.hidden_size;
  const Json* head = fields.find("mamba_d_head");
  const bool automatic = head == nullptr || *head == "auto";
  mamba.head_dim = automatic ? inner / mamba.heads : fields.extent("mamba_d_head");
  if (inner % mamba.heads != 0 || mamba.head_dim * mamba.heads != inner) {
    fields.add("mamba_n_heads", "found " + std::to_string(mamba.heads),
               "mamba_n_heads * mamba_d_head = mamba_expand * hidden_size (" +
                   std::to_string(inner) + ")");
  }
  if (mamba.heads % mamba.groups != 0) {
    fields.add("mamba_n_groups", "found " + std::to_string(mamba.groups),
               "a divisor of mamba_n_heads (" + std::to_string(mamba.heads) + ")");
  }
  config.mamba = mamba;
}

bool needs_attention(const ModelConfig& config) {
  for (const bool mamba : config.mamba_layers) {
    if (!mamba) return true;
  }
  return false;
}

void read_granitemoehybrid(ConfigFields& fields, ModelConfig& config) {
  // Only experts are that wide, and there may be none.
  read_sizes(fields, config, /*max_position_embeddings=*/2048, /*intermediate_size=*/11008);
  read_embedding(fields, config, /*tied_by_default=*/false);
  read_mixers(fields, config);
  read_mamba(fields, config);
  read_heads(fields, config);
  read_attention_bias(fields, config);
  require_silu(fields);
  read_granite_multipliers(fields, config);
  const Json* experts = fields.find("num_local_experts");
  if (experts == nullptr || *experts != 0) read_experts(fields, config);
  const Json* shared = fields.find("shared_intermediate_size");
  if (shared == nullptr || *shared != 0)
    config.shared_intermediate_size = fields.extent("shared_intermediate_size", 1024);
  if (!config.experts && config.shared_intermediate_size == 0) {
    fields.add("shared_intermediate_size", "found 0", "an MLP: num_local_experts is 0, too");
  }
  const bool rope = fields.text("position_embedding_type", "") == "rope";
  config.rotary = rope && needs_attention(config);
  if (config.rotary) read_rope(fields, config);
}

void append_mamba(LayerShape& layer, const ModelConfig& config) {
  const MambaConfig& mamba = *config.mamba;
  const int64_t hidden = config.hidden_size, inner = mamba.inner(), heads = mamba.heads;
  layer.scanned_values = mamba.inner() * mamba.state;
  append_linear(layer, "mamba.in_proj", hidden, mamba.projected(), mamba.projection_bias,
                kMixerInput);
  layer.tensors.push_back({"mamba.conv1d.weight", {mamba.convolved(), 1, mamba.kernel}});
  if (mamba.convolution_bias) layer.tensors.push_back({"mamba.conv1d.bias", {mamba.convolved()}});
  for (const char* name : {"mamba.dt_bias", "mamba.A_log", "mamba.D"})
    layer.tensors.push_back({name, {heads}});
  layer.tensors.push_back({"mamba.norm.weight", {inner}});
  append_linear(layer, "mamba.out_proj", inner, hidden, mamba.projection_bias, kScanned);
  // Inputs of the norm and the projections, the projection, the convolution's result, the scan's,
  // and what the gated norm keeps.
  // The scan's result, what the projection back takes, and a state in float32 for each chunk.
  constexpr int64_t kChunk = 128;  // positions (ops/state_space_scan.h)
  const int64_t states = 2 * inner * mamba.state / kChunk;
  layer.kept_values += 2 * hidden + mamba.projected() + mamba.convolved() + 2 * inner + states;
  // Gradients of these, and what the scan copies for its products.
  layer.backward_values =
      std::max(layer.backward_values, hidden + mamba.projected() + mamba.convolved() + 6 * inner);
}

ModelShape granitemoehybrid_shape(const ModelConfig& config) {
  std::vector<LayerShape> layers;
  for (int64_t i = 0; i < config.num_hidden_layers; ++i) {
    LayerShape layer;
    layer.tensors.push_back({"input_layernorm.weight", {config.hidden_size}});
    if (config.is_mamba(i)) {
      append_mamba(layer, config);
    } else {
      append_attention(layer, config, config.attention.window);
    }
    layer.tensors.push_back({"post_attention_layernorm.weight", {config.hidden_size}});
    if (config.experts) append_stacked_experts(layer, config);
    append_shared_mlp(layer, config);
    layers.push_back(std::move(layer));
  }
  return decoder_shape(config, layers);
}

}  // namespace

const Family kGraniteMoeHybridFamily = {
    "granitemoehybrid", "GraniteMoeHybridForCausalLM", "GraniteMoeHybridDecoderLayer",
    kLlamaNames,        read_granitemoehybrid,         granitemoehybrid_shape};

}  // namespace sftbench
