// LLaVA-NeXT (Liu et al. 2024; LlavaNextConfig, LlavaNextForConditionalGeneration): a CLIP or SigLIP tower, a projector of two
// linears, and a text model of Llama's kin.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "families/config_parts.h"
#include "families/llama.h"
#include "families/rows.h"
#include "families/shape_parts.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr const char* kTower = "model.vision_tower.";

// LlamaConfig, MistralConfig and GraniteConfig alike; a text_config leaves out what is a default of its class.
Json with_text_defaults(Json text) {
  const std::string type = text.value("model_type", Json("llama")).is_string()
                               ? text.value("model_type", std::string("llama"))
                               : std::string();
  const Json defaults = {
      {"model_type", "llama"},   {"hidden_size", 4096},
      {"num_hidden_layers", 32}, {"num_attention_heads", 32},
      {"vocab_size", 32000},     {"intermediate_size", type == "mistral" ? 14336 : 11008}};
  for (const auto& [key, value] : defaults.items()) {
    if (!text.contains(key)) text[key] = value;
  }
  return text;
}

// The object under `key`, or an empty one with a finding.
Json part_of(ConfigFields& fields, const std::string& key, const Json& otherwise) {
  const Json* part = fields.find(key);
  if (part == nullptr) return otherwise;
  if (part->is_object()) return *part;
  fields.add(key, "found " + shown(*part), "an object");
  return otherwise;
}

void read_text(ConfigFields& fields, ModelConfig& config) {
  const Json text = with_text_defaults(part_of(fields, "text_config", Json::object()));
  ConfigFields inner = fields.of(text, "text_config.");
  const std::string type = inner.text("model_type", "llama");
  const std::vector<std::string> known = {"granite", "llama", "mistral"};
  const Family* family = find_family(type);
  if (family == nullptr || std::find(known.begin(), known.end(), type) == known.end()) {
    inner.add("model_type", "found " + shown(Json(type)), "one of " + join(known),
              nearest_spelling(type, known));
    return;
  }
  family->read(inner, config);
  // LlavaNextForConditionalGeneration has an output projection of its own, without Granite's factor; and whether it is the
  // embedding is no matter of the text model.
  config.multipliers.logits = 1.0;
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
}

VisionActivation read_activation(ConfigFields& fields, const std::string& key,
                                 const std::string& otherwise) {
  const std::string name = fields.text(key, otherwise);
  if (name == "quick_gelu") return VisionActivation::kQuickGelu;
  if (name == "gelu") return VisionActivation::kGelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new") return VisionActivation::kGeluTanh;
  fields.add(key, "found " + shown(Json(name)), "quick_gelu, gelu or gelu_pytorch_tanh");
  return VisionActivation::kGelu;
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

// CLIPVisionConfig and SiglipVisionConfig.
VisionConfig read_tower(ConfigFields& fields) {
  const Json of_class = {{"model_type", "clip_vision_model"},
                         {"hidden_size", 1024},
                         {"intermediate_size", 4096},
                         {"num_hidden_layers", 24},
                         {"num_attention_heads", 16},
                         {"image_size", 336},
                         {"patch_size", 14}};
  const Json tower = part_of(fields, "vision_config", of_class);
  ConfigFields inner = fields.of(tower, "vision_config.");
  VisionConfig vision;
  const std::string type = inner.text("model_type", "clip_vision_model");
  const std::vector<std::string> known = {"clip_vision_model", "siglip_vision_model"};
  if (type != known[0] && type != known[1]) {
    inner.add("model_type", "found " + shown(Json(type)), "one of " + join(known),
              nearest_spelling(type, known));
  }
  vision.clip = type == known[0];
  vision.head = !vision.clip && inner.boolean("vision_use_head", true);
  vision.hidden_size = inner.extent("hidden_size", 768);
  vision.intermediate_size = inner.extent("intermediate_size", 3072);
  vision.layers = inner.extent("num_hidden_layers", 12);
  vision.heads = inner.extent("num_attention_heads", 12);
  vision.channels = inner.extent("num_channels", 3);
  vision.image_size = inner.extent("image_size", 224);
  vision.patch_size = inner.extent("patch_size", vision.clip ? 32 : 16);
  vision.activation =
      read_activation(inner, "hidden_act", vision.clip ? "quick_gelu" : "gelu_pytorch_tanh");
  vision.norm_eps = inner.positive("layer_norm_eps", vision.clip ? 1e-5 : 1e-6);
  vision.initializer_range = inner.positive("initializer_range", 0.02);
  if (read_dropout(inner, "attention_dropout", 0.0) > 0) {
    inner.add("attention_dropout", "found a share above 0",
              "0: this version's vision tower has no dropout");
  }
  check_tower(inner, vision);
  return vision;
}

// One number or a list; negative ones count from the last layer's result.
void read_feature_layers(ConfigFields& fields, VisionConfig& vision) {
  const Json* found = fields.find("vision_feature_layer");
  const Json given = found == nullptr ? Json(-2) : *found;
  const Json list = given.is_array() ? given : Json::array({given});
  const std::string range =
      std::to_string(-vision.layers - 1) + " to " + std::to_string(vision.layers);
  constexpr size_t kMostFeatureLayers = 64;
  if (list.empty() || list.size() > kMostFeatureLayers) {
    fields.add("vision_feature_layer", "found " + shown(given), "1 to 64 layers, each " + range);
  }
  for (const Json& layer : list) {
    const bool number = layer.is_number_integer() &&
                        !(layer.is_number_unsigned() && layer.get<uint64_t>() > INT64_MAX);
    const int64_t index = number ? layer.get<int64_t>() : INT64_MAX;
    if (index > vision.layers || index < -vision.layers - 1) {
      return fields.add("vision_feature_layer", "found " + shown(layer), range);
    }
    vision.feature_layers.push_back(index < 0 ? index + vision.layers + 1 : index);
  }
}

// "default" drops the first state, "full" keeps all: what is left has to be a tile's patches.
void check_selection(ConfigFields& fields, const VisionConfig& vision) {
  const std::string strategy = fields.text("vision_feature_select_strategy", "default");
  const std::string expected = vision.clip ? "default" : "full";
  if (strategy == expected) return;
  fields.add("vision_feature_select_strategy", "found " + shown(Json(strategy)),
             "\"" + expected + "\": the states of " + (vision.clip ? "CLIP" : "SigLIP") +
                 " are then one for each patch");
}

int64_t pixels(const Json& value) {
  const bool number = value.is_number_integer() &&
                      !(value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX);
  return number ? value.get<int64_t>() : 0;
}

void read_pinpoints(ConfigFields& fields, VisionConfig& vision) {
  const Json of_class = {{336, 672}, {672, 336}, {672, 672}, {1008, 336}, {336, 1008}};
  constexpr int64_t kMostTiles = 256;
  constexpr size_t kMostPinpoints = 1000;
  const Json* found = fields.find("image_grid_pinpoints");
  const Json list = found == nullptr ? of_class : *found;
  const std::string expected = "pairs [height, width] of multiples of image_size (" +
                               std::to_string(vision.image_size) + "), at most " +
                               std::to_string(kMostTiles) + " tiles each";
  if (!list.is_array() || list.empty() || list.size() > kMostPinpoints) {
    return fields.add("image_grid_pinpoints", "found " + shown(list), expected);
  }
  for (const Json& pair : list) {
    const bool sizes = pair.is_array() && pair.size() == 2;
    const PixelSize size = sizes ? PixelSize{pixels(pair[0]), pixels(pair[1])} : PixelSize{};
    const int64_t tile = vision.image_size;
    const bool fits = size.height > 0 && size.width > 0 && size.height % tile == 0 &&
                      size.width % tile == 0 && size.height / tile <= kMostTiles &&
                      size.width / tile <= kMostTiles &&
                      (size.height / tile) * (size.width / tile) <= kMostTiles;
    if (!fits) return fields.add("image_grid_pinpoints", "found " + shown(pair), expected);
    vision.pinpoints.push_back(size);
  }
}

void read_image_token(ConfigFields& fields, const ModelConfig& config, VisionConfig& vision) {
  constexpr int64_t kImageTokenOfClass = 32000;
  const char* key =
      fields.find("image_token_index") == nullptr && fields.find("image_token_id") != nullptr
          ? "image_token_id"
          : "image_token_index";
  const Json* found = fields.find(key);
  vision.image_token = found == nullptr ? kImageTokenOfClass : pixels(*found);
  const bool zero = found != nullptr && *found == 0;
  if ((vision.image_token > 0 || zero) && vision.image_token < config.vocab_size) return;
  fields.add(key, "found " + (found == nullptr ? std::string("32000 by default") : shown(*found)),
             "a row of the embedding (vocab_size is " + std::to_string(config.vocab_size) + ")");
}

void read_llava_next(ConfigFields& fields, ModelConfig& config) {
  read_text(fields, config);
  VisionConfig vision = read_tower(fields);
  read_feature_layers(fields, vision);
  check_selection(fields, vision);
  vision.projector_activation = read_activation(fields, "projector_hidden_act", "gelu");
  vision.projector_bias = fields.boolean("multimodal_projector_bias", true);
  read_pinpoints(fields, vision);
  read_image_token(fields, config, vision);
  if (fields.find("quantization_config") != nullptr) {
    fields.add("quantization_config", "found a quantized model that reads images",
               "weights that are not quantized");
  }
  // Before transformers 4.50 rows of features could end without a position of their own.
  if (!fields.boolean("use_image_newline_parameter", true)) {
    fields.add("use_image_newline_parameter", "found false", "true");
  }
  config.dtype = fields.text("dtype", fields.text("torch_dtype", config.dtype));
  config.vision = std::move(vision);
}

// --- shape ---------------------------------------------------------------------------------------

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
  const std::string layer = kTower + ("encoder.layers." + std::to_string(index));
  const int64_t width = vision.hidden_size, inner = vision.intermediate_size;
  append_layer_norm(shape.before, layer + ".layer_norm1", width);
  for (const char* name : {"q_proj", "k_proj", "v_proj", "out_proj"})
    append_tower_linear(shape, layer + ".self_attn." + name, width, width);
  append_layer_norm(shape.before, layer + ".layer_norm2", width);
  append_tower_linear(shape, layer + ".mlp.fc1", width, inner);
  append_tower_linear(shape, layer + ".mlp.fc2", inner, width);
}

void append_pooling_head(std::vector<TensorShape>& tensors, const VisionConfig& vision) {
  const std::string head = std::string(kTower) + "head";
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
  const std::string embeddings = std::string(kTower) + "embeddings.";
  const int64_t width = vision.hidden_size, patch = vision.patch_size;
  if (vision.clip) shape.before.push_back({embeddings + "class_embedding", {width}});
  shape.before.push_back(
      {embeddings + "patch_embedding.weight", {width, vision.channels, patch, patch}});
  if (!vision.clip) shape.before.push_back({embeddings + "patch_embedding.bias", {width}});
  shape.before.push_back({embeddings + "position_embedding.weight", {vision.positions(), width}});
  if (vision.clip) append_layer_norm(shape.before, std::string(kTower) + "pre_layrnorm", width);
  for (int64_t i = 0; i < vision.layers; ++i) append_tower_layer(shape, vision, i);
  append_layer_norm(shape.before, std::string(kTower) + "post_layernorm", width);
  if (vision.head) append_pooling_head(shape.before, vision);
}

ModelShape llava_next_shape(const ModelConfig& config) {
  const VisionConfig& vision = *config.vision;
  const int64_t hidden = config.hidden_size;
  ModelShape shape = llama_shape(config);
  append_tower(shape, vision);
  const std::string projector = "model.multi_modal_projector.linear_";
  append_tower_linear(shape, projector + "1", vision.feature_width(), hidden,
                      vision.projector_bias);
  append_tower_linear(shape, projector + "2", hidden, hidden, vision.projector_bias);
  shape.before.push_back({"model.image_newline", {hidden}});
  for (size_t i = 1; i < shape.before.size(); ++i)  // behind the embedding
    shape.vision_parameters += shape.before[i].elements();
  return shape;
}

// Names as transformers has had them: language_model.model. and language_model.lm_head. in the files, and as modules since
// 4.52 model.language_model.; the towers' own vision_model. went with 5.
std::string canonical_name(const std::string& stored) {
  std::string name = stored;
  const auto replace = [&name](const std::string& prefix, const std::string& by) {
    if (name.starts_with(prefix)) name = by + name.substr(prefix.size());
  };
  replace("language_model.model.", "model.language_model.");
  replace("language_model.lm_head.", "lm_head.");
  for (const char* part : {"vision_tower.", "multi_modal_projector.", "image_newline"})
    replace(part, std::string("model.") + part);
  replace("model.vision_tower.vision_model.", kTower);
  return name;
}

}  // namespace

double tile_flops(const ModelConfig& config) {
  if (!config.vision) return 0;
  const VisionConfig& vision = *config.vision;
  const auto width = static_cast<double>(vision.hidden_size);
  const auto inner = static_cast<double>(vision.intermediate_size);
  const auto positions = static_cast<double>(vision.positions());
  const auto patches = static_cast<double>(vision.grid() * vision.grid());
  const auto hidden = static_cast<double>(config.hidden_size);
  const auto colors = static_cast<double>(vision.channels * vision.patch_size * vision.patch_size);
  const double layer =
      2 * positions * (4 * width * width + 2 * width * inner) + 4 * positions * positions * width;
  const double projector =
      2 * patches * (static_cast<double>(vision.feature_width()) * hidden + hidden * hidden);
  return static_cast<double>(vision.used_layers()) * layer + 2 * patches * colors * width +
         projector;
}

const Family kLlavaNextFamily = {
    "llava_next",
    "LlavaNextForConditionalGeneration",
    "",
    {"model.language_model.embed_tokens", "model.language_model.layers.",
     "model.language_model.norm", "lm_head"},
    read_llava_next,
    llava_next_shape,
    canonical_name,
    ModelClass::kLlavaNext};

}  // namespace sftbench
