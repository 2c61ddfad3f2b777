// LLaVA-NeXT (Liu et al. 2024; LlavaNextConfig, LlavaNextForConditionalGeneration): a CLIP or
// SigLIP tower, a projector of two linears, and a text model of Llama's kin.
#include <string>
#include <utility>
#include <vector>

#include "families/rows.h"
#include "families/vision_parts.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// CLIPVisionConfig and SiglipVisionConfig.
VisionConfig read_clip_or_siglip(ConfigFields& fields) {
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
  const TowerDefaults of_clip = {.patch_size = 32, .activation = "quick_gelu", .norm_eps = 1e-5};
  read_tower(inner, vision.clip ? of_clip : TowerDefaults(), vision);
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
    const PixelSize size =
        sizes ? PixelSize{whole_number(pair[0]), whole_number(pair[1])} : PixelSize{};
    const int64_t tile = vision.image_size;
    const bool fits = size.height > 0 && size.width > 0 && size.height % tile == 0 &&
                      size.width % tile == 0 && size.height / tile <= kMostTiles &&
                      size.width / tile <= kMostTiles &&
                      (size.height / tile) * (size.width / tile) <= kMostTiles;
    if (!fits) return fields.add("image_grid_pinpoints", "found " + shown(pair), expected);
    vision.pinpoints.push_back(size);
  }
}

void read_llava_next(ConfigFields& fields, ModelConfig& config) {
  read_text_model(fields, config);
  VisionConfig vision = read_clip_or_siglip(fields);
  read_feature_layers(fields, vision);
  check_selection(fields, vision);
  vision.projector_activation = read_vision_activation(fields, "projector_hidden_act", "gelu");
  vision.projector_bias = fields.boolean("multimodal_projector_bias", true);
  read_pinpoints(fields, vision);
  const bool renamed =
      fields.find("image_token_index") == nullptr && fields.find("image_token_id") != nullptr;
  read_image_token(fields, config, renamed ? "image_token_id" : "image_token_index", 32000, vision);
  // Before transformers 4.50 rows of features could end without a position of their own.
  if (!fields.boolean("use_image_newline_parameter", true)) {
    fields.add("use_image_newline_parameter", "found false", "true");
  }
  config.vision = std::move(vision);
}

// The towers' own vision_model. went with transformers 5.
std::string canonical_name(const std::string& stored) {
  std::string name = text_part_name(stored);
  const auto replace = [&name](const std::string& prefix, const std::string& by) {
    if (name.starts_with(prefix)) name = by + name.substr(prefix.size());
  };
  for (const char* part : {"vision_tower.", "multi_modal_projector.", "image_newline"})
    replace(part, std::string("model.") + part);
  replace("model.vision_tower.vision_model.", "model.vision_tower.");
  return name;
}

}  // namespace

const Family kLlavaNextFamily = {
    "llava_next",
    "LlavaNextForConditionalGeneration",
    "",
    {"model.language_model.embed_tokens", "model.language_model.layers.",
     "model.language_model.norm", "lm_head"},
    read_llava_next,
    vision_language_shape,
    canonical_name,
    ModelClass::kVision};

}  // namespace sftbench
