#include "families/vision_parts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "families/config_parts.h"
#include "families/llama.h"
#include "families/shape_parts.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// LlamaConfig and GraniteConfig alike, MistralConfig, Gemma3TextConfig: a text_config leaves out
// what is a default of its class.
Json with_text_defaults(Json text, const std::string& type) {
  Json defaults = {{"hidden_size", 4096},
                   {"intermediate_size", 11008},
                   {"num_hidden_layers", 32},
                   {"num_attention_heads", 32},
                   {"vocab_size", 32000}};
  if (type == "mistral") defaults["intermediate_size"] = 14336;
  if (type == "gemma3_text") {
    defaults = {{"hidden_size", 2304},
                {"intermediate_size", 9216},
                {"num_hidden_layers", 26},
                {"num_attention_heads", 8},
                {"vocab_size", 262208}};
  }
  for (const auto& [key, value] : defaults.items()) {
    if (!text.contains(key)) text[key] = value;
  }
  return text;
}

void check_tower(ConfigFields& fields, const VisionConfig& vision) {
  if (vision.hidden_size % vision.heads != 0) {
    fields.add("hidden_size", "found " + std::to_string(vision.hidden_size),
               "a multiple of num_attention_heads (" + std::to_string(vision.heads) + ")");
  }
  if (vision.image_size < vision.patch_size) {
    fields.add("image_size", "found " + std::to_string(vision.image_size),
               "at least patch_size (" + std::to_string(vision.patch_size) + ")");
  }
  constexpr int64_t kMostPixels = 8192, kMostVisionLayers = 1000;
  if (vision.image_size > kMostPixels) {
    fields.add("image_size", "found " + std::to_string(vision.image_size),
               "at most " + std::to_string(kMostPixels));
  }
  if (vision.layers > kMostVisionLayers) {
    fields.add("num_hidden_layers", "found " + std::to_string(vision.layers),
               "at most " + std::to_string(kMostVisionLayers));
  }
  if (vision.channels != 3) {
    fields.add("num_channels", "found " + std::to_string(vision.channels), "3: red, green, blue");
  }
}

}  // namespace

Json part_of(ConfigFields& fields, const std::string& key, const Json& otherwise) {
  const Json* part = fields.find(key);
  if (part == nullptr) return otherwise;
  if (part->is_object()) return *part;
  fields.add(key, "found " + shown(*part), "an object");
  return otherwise;
}

void read_text_part(ConfigFields& fields, ModelConfig& config,
                    const std::vector<std::string>& known) {
  const Json given = part_of(fields, "text_config", Json::object());
  const std::string type = fields.of(given, "text_config.").text("model_type", known.front());
  const Json text = with_text_defaults(given, type);
  ConfigFields inner = fields.of(text, "text_config.");
  if (std::find(known.begin(), known.end(), type) == known.end()) {
    inner.add("model_type", "found " + shown(Json(type)),
              (known.size() > 1 ? "one of " : "") + join(known), nearest_spelling(type, known));
    return;
  }
  find_family(type)->read(inner, config);
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", config.tie_word_embeddings);
  config.dtype = fields.text("dtype", fields.text("torch_dtype", config.dtype));
}

void read_text_model(ConfigFields& fields, ModelConfig& config) {
  read_text_part(fields, config, {"llama", "granite", "mistral"});
  // The whole model has an output projection of its own, without Granite's factor; and whether it
  // is the embedding is no matter of the text model.
  config.multipliers.logits = 1.0;
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
  if (fields.find(kQuantizationConfig) != nullptr) {
    fields.add(kQuantizationConfig, "found a quantized model that reads images",
               "weights that are not quantized");
  }
}

std::string text_part_name(const std::string& stored) {
  constexpr std::string_view kModel = "language_model.model.", kHead = "language_model.lm_head.";
  if (stored.starts_with(kModel)) return "model.language_model." + stored.substr(kModel.size());
  return stored.starts_with(kHead) ? "lm_head." + stored.substr(kHead.size()) : stored;
}

VisionActivation read_vision_activation(ConfigFields& fields, const std::string& key,
                                        const std::string& otherwise) {
  const std::string name = fields.text(key, otherwise);
  if (name == "quick_gelu") return VisionActivation::kQuickGelu;
  if (name == "gelu") return VisionActivation::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return VisionActivation::kGeluTanh;
  fields.add(key, "found " + shown(Json(name)), "quick_gelu, gelu or gelu_pytorch_tanh");
  return VisionActivation::kGelu;
}

void read_tower(ConfigFields& fields, const TowerDefaults& defaults, VisionConfig& vision) {
  vision.hidden_size = fields.extent("hidden_size", defaults.hidden_size);
  vision.intermediate_size = fields.extent("intermediate_size", 3072);
  vision.layers = fields.extent("num_hidden_layers", 12);
  vision.heads = fields.extent("num_attention_heads", defaults.heads);
  vision.channels = fields.extent("num_channels", 3);
  vision.image_size = fields.extent("image_size", 224);
  vision.patch_size = fields.extent("patch_size", defaults.patch_size);
  vision.activation = read_vision_activation(fields, "hidden_act", defaults.activation);
  vision.norm_eps = fields.positive("layer_norm_eps", defaults.norm_eps);
  vision.initializer_range = fields.positive("initializer_range", 0.02);
  if (read_dropout(fields, "attention_dropout", 0.0) > 0) {
    fields.add("attention_dropout", "found a share above 0",
               "0: this version's vision tower has no dropout");
  }
  check_tower(fields, vision);
}

void read_image_token(ConfigFields& fields, const ModelConfig& config, const std::string& key,
                      int64_t of_class, VisionConfig& vision) {
  const Json* found = fields.find(key);
  vision.image_token = found == nullptr ? of_class : whole_number(*found);
  const bool zero = found != nullptr && *found == 0;
  if ((vision.image_token > 0 || zero) && vision.image_token < config.vocab_size) return;
  fields.add(
      key, "found " + (found == nullptr ? std::to_string(of_class) + " by default" : shown(*found)),
      "a row of the embedding (vocab_size is " + std::to_string(config.vocab_size) + ")");
}

int64_t whole_number(const Json& value) {
  const bool number = value.is_number_integer() &&
                      !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
  return number ? value.get<int64_t>() : 0;
}

// --- shape ---------------------------------------------------------------------------------------

namespace {

void append_biased(std::vector<TensorShape>& tensors, const std::string& name, int64_t in,
                   int64_t out, bool bias = true) {
  tensors.push_back({name + ".weight", {out, in}});
  if (bias) tensors.push_back({name + ".bias", {out}});
}

// What append_linear() does, outside of the text model's layers.
void append_tower_linear(ModelShape& shape, const std::string& name, int64_t in, int64_t out,
                         bool bias = true) {
  append_biased(shape.before, name, in, out, bias);
  shape.linears_before.push_back({name, in, out});
}

void append_tower_layer(ModelShape& shape, const VisionConfig& vision, int64_t index) {
  const std::string layer = vision.tower + (".encoder.layers." + std::to_string(index));
  const int64_t width = vision.hidden_size, inner = vision.intermediate_size;
  append_layer_norm(shape.before, layer + ".layer_norm1", width);
  for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"})
    append_tower_linear(shape, layer + ".self_attn." + name, width, width);
  append_layer_norm(shape.before, layer + ".layer_norm2", width);
  append_tower_linear(shape, layer + ".mlp.fc1", width, inner);
  append_tower_linear(shape, layer + ".mlp.fc2", inner, width);
}

void append_pooling_head(std::vector<TensorShape>& tensors, const VisionConfig& vision) {
  const std::string head = std::string(vision.tower) + ".head";
  const int64_t width = vision.hidden_size, inner = vision.intermediate_size;
  tensors.push_back({head + ".probe", {1, 1, width}});
  tensors.push_back({head + ".attention.in_proj_weight", {3 * width, width}});
  tensors.push_back({head + ".attention.in_proj_bias", {3 * width}});
  append_biased(tensors, head + ".attention.out_proj", width, width);
  append_layer_norm(tensors, head + ".layernorm", width);
  append_biased(tensors, head + ".mlp.fc1", width, inner);
  append_biased(tensors, head + ".mlp.fc2", inner, width);
}

void append_tower(ModelShape& shape, const VisionConfig& vision) {
  const std::string tower = vision.tower, embeddings = tower + ".embeddings.";
  const int64_t width = vision.hidden_size, patch = vision.patch_size;
  if (vision.clip) shape.before.push_back({embeddings + "class_embedding", {width}});
  shape.before.push_back(
      {embeddings + "patch_embedding.weight", {width, vision.channels, patch, patch}});
  if (!vision.clip) shape.before.push_back({embeddings + "patch_embedding.bias", {width}});
  shape.before.push_back({embeddings + "position_embedding.weight", {vision.positions(), width}});
  if (vision.clip) append_layer_norm(shape.before, tower + ".pre_layrnorm", width);
  for (int64_t i = 0; i < vision.layers; ++i) append_tower_layer(shape, vision, i);
  append_layer_norm(shape.before, tower + ".post_layernorm", width);
  if (vision.head) append_pooling_head(shape.before, vision);
}

}  // namespace

std::vector<LinearShape> projector_linears(const ModelConfig& config) {
  const VisionConfig& vision = *config.vision;
  const int64_t width = vision.feature_width(), hidden = config.hidden_size;
  if (vision.connector == VisionConnector::kSquares) return {{"proj", width, hidden}};
  return {{"linear_1", width, hidden}, {"linear_2", hidden, hidden}};
}

ModelShape vision_language_shape(const ModelConfig& config) {
  const VisionConfig& vision = *config.vision;
  ModelShape shape = llama_shape(config);
  append_tower(shape, vision);
  for (const LinearShape& linear : projector_linears(config)) {
    append_tower_linear(shape, std::string(vision.projector) + "." + linear.name, linear.in,
                        linear.out, vision.projector_bias);
  }
  if (vision.connector == VisionConnector::kNewlines)
    shape.before.push_back({"model.image_newline", {config.hidden_size}});
  for (size_t i = 1; i < shape.before.size(); ++i)  // behind the embedding
    shape.vision_parameters += shape.before[i].elements();
  return shape;
}

double tile_flops(const ModelConfig& config) {
  if (!config.vision) return 0;
  const VisionConfig& vision = *config.vision;
  const auto width = static_cast<double>(vision.hidden_size);
  const auto inner = static_cast<double>(vision.intermediate_size);
  const auto positions = static_cast<double>(vision.positions());
  const auto patches = static_cast<double>(vision.grid() * vision.grid());
  const auto colors = static_cast<double>(vision.channels * vision.patch_size * vision.patch_size);
  const double layer =
      2 * positions * (4 * width * width + 2 * width * inner) + 4 * positions * positions * width;
  double projector = 0;
  for (const LinearShape& linear : projector_linears(config)) {
    projector += 2 * static_cast<double>(vision.tile_features()) * static_cast<double>(linear.in) *
                 static_cast<double>(linear.out);
  }
  return static_cast<double>(vision.used_layers()) * layer + 2 * patches * colors * width +
         projector;
}

}  // namespace sftbench
