// Idefics3 (Laurençon et al. 2024; Idefics3Config, Idefics3ForConditionalGeneration) and SmolVLM
// (Marafioti et al. 2025), which is the same with videos: a SigLIP tower for tiles of any size,
// squares of its patches through one linear, and a text model of Llama's kin.
#include <string>
#include <utility>

#include "families/rows.h"
#include "families/vision_parts.h"

namespace sftbench {
namespace {

void check_squares(ConfigFields& fields, const VisionConfig& vision) {
  if (vision.grid() % vision.square == 0) return;
  fields.add("scale_factor", "found " + std::to_string(vision.square),
             "a divisor of the patches along a side (" + std::to_string(vision.grid()) + ")");
}

void read_idefics3(ConfigFields& fields, ModelConfig& config) {
  read_text_model(fields, config);
  VisionConfig vision;
  vision.connector = VisionConnector::kSquares;
  vision.tower = "model.vision_model";
  vision.projector = "model.connector.modality_projection";
  vision.projector_bias = false;
  vision.clip = false;
  vision.plain_start = vision.final_norm = vision.any_resolution = true;
  const Json tower = part_of(fields, "vision_config", Json::object());
  ConfigFields inner = fields.of(tower, "vision_config.");
  read_tower(inner, {.hidden_size = 1152, .heads = 16, .patch_size = 32}, vision);
  vision.feature_layers = {vision.layers};
  vision.square = fields.extent("scale_factor", 2);
  check_squares(fields, vision);
  vision.longest_side = 4 * vision.image_size;
  read_image_token(fields, config, "image_token_id", 128257, vision);
  config.vision = std::move(vision);
}

constexpr ModelNames kNames = {"model.text_model.embed_tokens", "model.text_model.layers.",
                               "model.text_model.norm", "lm_head"};

}  // namespace

const Family kIdefics3Family = {"idefics3",
                                "Idefics3ForConditionalGeneration",
                                "",
                                kNames,
                                read_idefics3,
                                vision_language_shape,
                                nullptr,
                                ModelClass::kVision};

const Family kSmolVlmFamily = {"smolvlm",
                               "SmolVLMForConditionalGeneration",
                               "",
                               kNames,
                               read_idefics3,
                               vision_language_shape,
                               nullptr,
                               ModelClass::kVision};

}  // namespace sftbench
