#include "sftbench/families/gptq.h"

#include <algorithm>
#include <array>

#include "families/config_fields.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr std::array<int64_t, 4> kBits = {2, 3, 4, 8};

// Reads whole numbers that ConfigFields, which knows sizes only, would refuse.
int64_t read_integer(ConfigFields& fields, const std::string& key, int64_t otherwise) {
  const Json* value = fields.find(key);
  if (value == nullptr) return otherwise;
  if (value->is_number_integer()) {
    const auto number = value->get<int64_t>();
    if (number == -1 || (number > 0 && number < kMaxExtent)) return number;
  }
  return 0;  // of no meaning to any key
}

void read_bits(ConfigFields& fields, GptqConfig& config) {
  config.bits = read_integer(fields, "bits", 0);
  if (std::find(kBits.begin(), kBits.end(), config.bits) != kBits.end()) return;
  const Json* found = fields.find("bits");
  fields.add("bits", found == nullptr ? "missing" : "found " + shown(*found), "2, 3, 4 or 8");
}

void read_group_size(ConfigFields& fields, GptqConfig& config) {
  config.group_size = read_integer(fields, "group_size", config.group_size);
  if (config.group_size != 0) return;
  fields.add("group_size", "found " + shown(*fields.find("group_size")),
             "a number of features, or -1 for all of them");
}

void read_format(ConfigFields& fields, GptqConfig& config) {
  const std::string format = fields.text("checkpoint_format", fields.text("format", "gptq"));
  config.zeros_less_one = format == "gptq";
  if (format == "gptq" || format == "gptq_v2") return;
  fields.add("checkpoint_format", "found " + shown(Json(format)), "\"gptq\" or \"gptq_v2\"",
             nearest_spelling(format, {"gptq", "gptq_v2"}));
}

// Settings under which tensors stand elsewhere or otherwise than gptq.h says.
void refuse_other_layouts(ConfigFields& fields) {
  const std::string words = fields.text("pack_dtype", "int32");
  if (words != "int32") fields.add("pack_dtype", "found " + shown(Json(words)), "\"int32\"");
  for (const char* key : {"lm_head", "is_marlin_format"}) {
    if (fields.boolean(key, false)) fields.add(key, "found true", "false");
  }
  const Json* rules = fields.find("dynamic");
  if (rules == nullptr || rules->empty()) return;
  fields.add("dynamic", "found " + shown(*rules), "all linears of the layers quantized alike");
}

}  // namespace

int64_t GptqConfig::groups(int64_t in_features) const {
  return group_size == -1 ? 1 : (in_features + group_size - 1) / group_size;
}

std::vector<int64_t> GptqConfig::qweight_shape(int64_t in_features, int64_t out_features) const {
  return {in_features / kGptqPackedCodes * bits, out_features};
}

std::vector<int64_t> GptqConfig::qzeros_shape(int64_t in_features, int64_t out_features) const {
  return {groups(in_features), out_features / kGptqPackedCodes * bits};
}

std::vector<int64_t> GptqConfig::scales_shape(int64_t in_features, int64_t out_features) const {
  return {groups(in_features), out_features};
}

std::optional<GptqConfig> read_gptq_config(const Json& hf_config, const std::string& origin,
                                           std::vector<Diagnostic>& findings) {
  const auto found = hf_config.find(kQuantizationConfig);
  if (found == hf_config.end() || found->is_null()) return std::nullopt;
  if (!found->is_object()) {
    findings.push_back({origin, 0, kQuantizationConfig, "found " + shown(*found), "an object", {}});
    return std::nullopt;
  }
  ConfigFields fields(*found, origin, std::string(kQuantizationConfig) + ".", findings);
  if (const std::string method = fields.text("quant_method", ""); method != "gptq") {
    fields.add("quant_method", method.empty() ? "missing" : "found " + shown(Json(method)),
               "\"gptq\", or weights in float32, float16 or bfloat16");
    return std::nullopt;
  }
  GptqConfig config;
  read_bits(fields, config);
  read_group_size(fields, config);
  config.desc_act = fields.boolean("desc_act", false);
  config.sym = fields.boolean("sym", true);
  read_format(fields, config);
  refuse_other_layouts(fields);
  return config;
}

Json to_json(const GptqConfig& config) {
  return {{"quant_method", "gptq"},
          {"bits", config.bits},
          {"group_size", config.group_size},
          {"desc_act", config.desc_act},
          {"sym", config.sym},
          {"checkpoint_format", config.zeros_less_one ? "gptq" : "gptq_v2"}};
}

}  // namespace sftbench
