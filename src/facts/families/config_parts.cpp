#include "families/config_parts.h"
#include "sftbench/base/quantity_text.h"

#include <cmath>
#include <string>

namespace sftbench {

namespace {

// Far above what there is, and few enough to list.
constexpr int64_t kMostLayers = 100'000;
constexpr int64_t kMostExperts = 100'000;

int64_t read_layer_count(ConfigFields& fields, const std::string& key) {
  const int64_t layers = fields.extent(key);
  if (layers <= kMostLayers) return layers;
  fields.add(key, "found " + std::to_string(layers), "at most " + std::to_string(kMostLayers));
  return kMostLayers;
}

void read_initialization(ConfigFields& fields, ModelConfig& config) {
  // 0 means the default, as `or 0.02` does in Hugging Face.
  config.initializer_range =
      fields.number("initializer_range", 0.02, -1e-300, "a number of at least 0");
  if (config.initializer_range == 0.0) config.initializer_range = 0.02;
  config.dtype = fields.text("dtype", fields.text("torch_dtype", ""));
}

// The first of the keys that config.json has, or the last.
std::string present_key(const ConfigFields& fields, const std::string& key,
                        const std::string& other) {
  return fields.find(key) == nullptr && fields.find(other) != nullptr ? other : key;
}

}  // namespace

void read_sizes(ConfigFields& fields, ModelConfig& config, int64_t max_position_embeddings,
                int64_t intermediate_size) {
  config.hidden_size = fields.extent("hidden_size");
  config.intermediate_size = intermediate_size > 0
                                 ? fields.extent("intermediate_size", intermediate_size)
                                 : fields.extent("intermediate_size");
  config.num_hidden_layers = read_layer_count(fields, "num_hidden_layers");
  config.vocab_size = fields.extent("vocab_size");
  config.max_position_embeddings =
      fields.extent("max_position_embeddings", max_position_embeddings);
  config.norm_eps = fields.positive("rms_norm_eps", 1e-6);
  read_initialization(fields, config);
}

void read_gpt_sizes(ConfigFields& fields, const std::string& hidden_key, ModelConfig& config) {
  AttentionConfig& attention = config.attention;
  config.hidden_size = fields.extent(hidden_key);
  config.num_hidden_layers =
      read_layer_count(fields, present_key(fields, "n_layer", "num_hidden_layers"));
  config.vocab_size = fields.extent("vocab_size");
  const std::string heads_key = present_key(fields, "n_head", "num_attention_heads");
  attention.heads = fields.extent(heads_key);
  attention.key_value_heads = attention.heads;
  config.norm_eps = fields.positive("layer_norm_epsilon", 1e-5);
  read_initialization(fields, config);
  if (attention.heads == 0 || config.hidden_size == 0) return;  // already a finding
  if (config.hidden_size % attention.heads != 0) {
    fields.add(hidden_key, "found " + std::to_string(config.hidden_size),
               "a multiple of " + heads_key + " (" + std::to_string(attention.heads) + ")");
  }
  attention.head_dim = config.hidden_size / attention.heads;
  attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
  attention.input_bias = attention.output_bias = config.mlp_bias = config.layer_norm = true;
  config.rotary = false;
}

void describe_fused_layers(ModelConfig& config, const char* attention) {
  config.attention.qkv_form = QkvForm::kByHead;
  config.attention.module = attention;
  config.attention.qkv = "query_key_value";
  config.attention.output = "dense";
  config.mlp = {MlpForm::kPlain, "mlp", "dense_h_to_4h", "dense_4h_to_h"};
}

void read_layer_windows(ConfigFields& fields, ModelConfig& config) {
  AttentionConfig& attention = config.attention;
  constexpr int64_t kDefaultWindow = 4096, kDefaultFirstLayer = 28;
  const bool used = fields.boolean("use_sliding_window", false);
  const int64_t window =
      fields.extent("sliding_window", fields.is_null("sliding_window") ? 0 : kDefaultWindow);
  attention.window = used ? window : 0;
  const Json* first = fields.find("max_window_layers");
  const bool from_the_first = first != nullptr && *first == 0;
  attention.first_window_layer =
      from_the_first ? 0 : fields.extent("max_window_layers", kDefaultFirstLayer);
  const Json* types = fields.find("layer_types");
  if (types != nullptr) read_layer_types(fields, *types, config);
}

void read_layer_types(ConfigFields& fields, const Json& types, ModelConfig& config) {
  if (!types.is_array() || static_cast<int64_t>(types.size()) != config.num_hidden_layers) {
    fields.add("layer_types", "found " + shown(types),
               "a list of " + counted(config.num_hidden_layers, "type"));
    return;
  }
  for (const Json& type : types) {
    if (type != "full_attention" && type != "sliding_attention") {
      config.attention.windowed.clear();
      return fields.add("layer_types", "found " + shown(type),
                        "full_attention or sliding_attention");
    }
    config.attention.windowed.push_back(type == "sliding_attention");
  }
}

void read_embedding(ConfigFields& fields, ModelConfig& config, bool tied_by_default,
                    std::optional<int64_t> default_padding_row) {
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", tied_by_default);
  const Json* pad = fields.find("pad_token_id");
  const Json row_of_class = default_padding_row ? Json(*default_padding_row) : Json();
  if (pad == nullptr && default_padding_row && !fields.is_null("pad_token_id")) pad = &row_of_class;
  if (pad == nullptr) return;
  // torch counts a negative padding index from the end.
  const int64_t index =
      pad->is_number_integer() && !(pad->is_number_unsigned() && pad->get<uint64_t>() > INT64_MAX)
          ? pad->get<int64_t>()
          : INT64_MAX;
  if (index >= config.vocab_size || index < -config.vocab_size) {
    fields.add("pad_token_id", "found " + shown(*pad),
               "a row of the embedding (vocab_size is " + std::to_string(config.vocab_size) + ")");
    return;
  }
  config.pad_token_id = index < 0 ? index + config.vocab_size : index;
}

void read_heads(ConfigFields& fields, ModelConfig& config, const HeadDefaults& defaults) {
  AttentionConfig& attention = config.attention;
  attention.heads = fields.extent("num_attention_heads");
  const bool own_default = defaults.key_value_heads > 0 && !fields.is_null("num_key_value_heads");
  attention.key_value_heads = fields.extent(
      "num_key_value_heads", own_default ? defaults.key_value_heads : attention.heads);
  attention.dropout = read_dropout(fields, "attention_dropout", 0.0);
  if (attention.heads == 0 || config.hidden_size == 0) return;  // already a finding

  if (attention.heads % attention.key_value_heads != 0) {
    fields.add("num_key_value_heads", "found " + std::to_string(attention.key_value_heads),
               "a divisor of num_attention_heads (" + std::to_string(attention.heads) + ")");
  }
  attention.head_dim = fields.extent("head_dim", defaults.head_dim);
  if (attention.head_dim == 0) {
    if (config.hidden_size % attention.heads != 0) {
      fields.add("hidden_size", "found " + std::to_string(config.hidden_size),
                 "a multiple of num_attention_heads (" + std::to_string(attention.heads) + ")");
      return;
    }
    attention.head_dim = config.hidden_size / attention.heads;
  }
  attention.scale = 1.0 / std::sqrt(static_cast<double>(attention.head_dim));
}

void read_rope(ConfigFields& fields, ModelConfig& config, const RopeDefaults& defaults) {
  if (defaults.share == 0) require_pairs(fields, config);
  config.rope =
      read_rope_config(fields, config.max_position_embeddings, config.attention.head_dim, defaults);
}

void require_pairs(ConfigFields& fields, const ModelConfig& config) {
  const int64_t head_dim = config.attention.head_dim;
  if (head_dim % 2 == 0) return;
  fields.add("head_dim", "found " + std::to_string(head_dim),
             "an even number: rotary embeddings turn pairs");
}

void read_attention_bias(ConfigFields& fields, ModelConfig& config, bool otherwise) {
  config.attention.input_bias = config.attention.output_bias =
      fields.boolean("attention_bias", otherwise);
}

void read_activation(ConfigFields& fields, ModelConfig& config, const std::string& key,
                     const std::string& otherwise) {
  const std::string name = fields.text(key, otherwise);
  config.activation = Activation::kGeluTanh;
  if (name == "silu" || name == "swish") {
    config.activation = Activation::kSilu;
  } else if (name == "gelu") {
    config.activation = Activation::kGelu;
  } else if (name != "gelu_pytorch_tanh" && name != "gelu_new") {
    fields.add(key, "found " + shown(Json(name)),
               "\"silu\", \"gelu\", \"gelu_new\" or \"gelu_pytorch_tanh\"");
  }
}

void read_window(ConfigFields& fields, ModelConfig& config, int64_t otherwise) {
  config.attention.window =
      fields.extent("sliding_window", fields.is_null("sliding_window") ? 0 : otherwise);
}

void read_periodic_windows(ConfigFields& fields, ModelConfig& config, int64_t period,
                           const char* period_key) {
  if (const Json* types = fields.find("layer_types"))
    return read_layer_types(fields, *types, config);
  if (period_key != nullptr) period = fields.extent(period_key, period);
  for (int64_t i = 0; i < config.num_hidden_layers; ++i)
    config.attention.windowed.push_back((i + 1) % period != 0);
}

namespace {

RopeConfig read_layer_rope(ConfigFields& fields, const ModelConfig& config, const std::string& type,
                           const RopeDefaults& defaults) {
  const Json* parameters = fields.find("rope_parameters");
  Json alone = Json::object();
  if (parameters != nullptr && parameters->is_object() && parameters->contains(type)) {
    alone["rope_parameters"] = parameters->at(type);
  } else if (const Json* scaling = fields.find("rope_scaling"); type == "full_attention") {
    if (scaling != nullptr) alone["rope_scaling"] = *scaling;
  }
  if (const Json* old = fields.find(defaults.theta_key)) alone[defaults.theta_key] = *old;
  ConfigFields own = fields.of(alone, type + ".");
  return read_rope_config(own, config.max_position_embeddings, config.attention.head_dim, defaults);
}

}  // namespace

void read_layer_ropes(ConfigFields& fields, ModelConfig& config, const RopeDefaults& full,
                      const RopeDefaults& sliding) {
  const Json* parameters = fields.find("rope_parameters");
  if (parameters != nullptr && (!parameters->is_object() || parameters->contains("rope_type"))) {
    fields.add("rope_parameters", "found " + shown(*parameters),
               "an object for full_attention and one for sliding_attention");
  }
  require_pairs(fields, config);
  config.rope = read_layer_rope(fields, config, "full_attention", full);
  config.local_rope = read_layer_rope(fields, config, "sliding_attention", sliding);
}

void require_none(ConfigFields& fields, const std::string& key, const std::string& why) {
  const Json* value = fields.find(key);
  const bool none = value == nullptr || *value == false || (value->is_number() && *value == 0);
  if (!none) fields.add(key, "found " + shown(*value), why);
}

void require_silu(ConfigFields& fields) {
  const std::string activation = fields.text("hidden_act", "silu");
  if (activation == "silu" || activation == "swish") return;
  fields.add("hidden_act", "found " + shown(Json(activation)), "\"silu\"");
}

void read_experts(ConfigFields& fields, ModelConfig& config, const ExpertDefaults& defaults) {
  ExpertsConfig experts;
  const std::string count_key = present_key(fields, defaults.count_key, "num_local_experts");
  experts.count = fields.extent(count_key, defaults.count);
  experts.width = config.intermediate_size;
  experts.per_token = fields.extent("num_experts_per_tok", defaults.per_token);
  if (experts.per_token > experts.count) {
    fields.add("num_experts_per_tok", "found " + std::to_string(experts.per_token),
               "at most " + count_key + " (" + std::to_string(experts.count) + ")");
  }
  if (experts.count > kMostExperts) {
    fields.add(count_key, "found " + std::to_string(experts.count),
               "at most " + std::to_string(kMostExperts));
  }
  const double coefficient =
      fields.number("router_aux_loss_coef", 0.001, -1e-300, "a number of at least 0");
  if (fields.boolean("output_router_logits", false)) experts.auxiliary_loss = coefficient;
  config.experts = experts;
}

void read_granite_multipliers(ConfigFields& fields, ModelConfig& config) {
  config.attention.scale = fields.positive("attention_multiplier", 1.0);
  config.multipliers = {.embedding = fields.positive("embedding_multiplier", 1.0),
                        .residual = fields.positive("residual_multiplier", 1.0),
                        .logits = 1.0 / fields.positive("logits_scaling", 1.0)};
}

double read_dropout(ConfigFields& fields, const std::string& key, double otherwise) {
  const double rate = fields.number(key, otherwise, -1e-300, "a number from 0 to below 1");
  if (rate < 1.0) return rate;
  fields.add(key, "found " + shown(Json(rate)), "a number from 0 to below 1");
  return 0.0;
}

}  // namespace sftbench
