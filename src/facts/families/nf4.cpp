#include "sftbench/families/nf4.h"

#include "families/config_fields.h"

namespace sftbench {

bool is_bitsandbytes(const Json& hf_config) {
  const auto found = hf_config.find(kQuantizationConfig);
  if (found == hf_config.end() || !found->is_object()) return false;
  // Files of early versions name no method.
  return found->value("quant_method", Json()) == "bitsandbytes" ||
         (!found->contains("quant_method") && found->contains("load_in_4bit"));
}

Nf4Config read_nf4_config(const Json& hf_config, const std::string& origin,
                          std::vector<Diagnostic>& findings) {
  ConfigFields fields(hf_config.at(kQuantizationConfig), origin,
                      std::string(kQuantizationConfig) + ".", findings);
  if (!fields.boolean("load_in_4bit", false))
    fields.add("load_in_4bit", "no 4 bits", "true: weights in 8 bits are not trained here");
  if (const std::string type = fields.text("bnb_4bit_quant_type", "fp4"); type != "nf4")
    fields.add("bnb_4bit_quant_type", "found " + shown(Json(type)), "\"nf4\"");
  if (const std::string words = fields.text("bnb_4bit_quant_storage", "uint8"); words != "uint8")
    fields.add("bnb_4bit_quant_storage", "found " + shown(Json(words)), "\"uint8\"");
  return {.double_quantized = fields.boolean("bnb_4bit_use_double_quant", false)};
}

Json to_json(const Nf4Config& config) {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"bnb_4bit_quant_type", "nf4"},
          {"bnb_4bit_use_double_quant", config.double_quantized}};
}

}  // namespace sftbench
