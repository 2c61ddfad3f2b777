// Gemma 3 of 4 billion parameters and more (Gemma Team 2025; Gemma3Config,
// Gemma3ForConditionalGeneration) and Mistral Small from 3.1 on (Mistral3Config,
// Mistral3ForConditionalGeneration): a text model beside a vision tower. The text model alone is
// trained: texts give the tower no gradient.
#include <string>
#include <string_view>

#include "families/llama.h"
#include "families/vision_parts.h"

namespace sftbench {
namespace {

constexpr ModelNames kNames = {"model.language_model.embed_tokens", "model.language_model.layers.",
                               "model.language_model.norm", "lm_head"};

std::string name_or_none(const std::string& stored) {
  std::string_view name = stored;
  constexpr std::string_view kModel = "model.";
  if (name.starts_with(kModel)) name.remove_prefix(kModel.size());
  const bool of_images =
      name.starts_with("vision_tower.") || name.starts_with("multi_modal_projector.");
  return of_images ? std::string() : text_part_name(stored);
}

void read_gemma3(ConfigFields& fields, ModelConfig& config) {
  read_text_part(fields, config, {"gemma3_text"});
}

void read_mistral3(ConfigFields& fields, ModelConfig& config) {
  read_text_part(fields, config, {"mistral", "ministral3"});
}

}  // namespace

const Family kGemma3VisionFamily = {"gemma3",
                                    "Gemma3ForConditionalGeneration",
                                    "Gemma3DecoderLayer",
                                    kNames,
                                    read_gemma3,
                                    llama_shape,
                                    name_or_none};

const Family kMistral3Family = {"mistral3",
                                "Mistral3ForConditionalGeneration",
                                "MistralDecoderLayer",
                                kNames,
                                read_mistral3,
                                llama_shape,
                                name_or_none};

}  // namespace sftbench
