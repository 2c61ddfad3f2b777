#include "sftbench/families/model_config.h"

#include <algorithm>
#include <set>
#include <utility>

#include "families/config_fields.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/families/family.h"
#include "sftbench/families/model_shape.h"
#include "sftbench/families/stored_form.h"

namespace sftbench {
namespace {

const Family* find_architecture_family(const std::string& architecture) {
  for (const Family& family : families()) {
    if (architecture == family.architecture) return &family;
  }
  return nullptr;
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const Family& family : families()) names.emplace_back(family.architecture);
  return names;
}

// The entry of "architectures" that can be built, if there is one; with a finding when none of
// those given can.
const Family* find_architecture(const Json& config, ConfigFields& fields) {
  const Json* list = fields.find("architectures");
  if (list == nullptr || (list->is_array() && list->empty())) return nullptr;
  if (!list->is_array() ||
      !std::all_of(list->begin(), list->end(), [](const Json& a) { return a.is_string(); })) {
    fields.add("architectures", "found " + shown(*list), "a list of class names");
    return nullptr;
  }
  for (const Json& name : config.at("architectures")) {
    if (const Family* family = find_architecture_family(name.get<std::string>())) return family;
  }
  const std::vector<std::string> known = known_architectures();
  const std::string first = list->front().get<std::string>();
  fields.add("architectures", "unknown architecture " + shown(list->front()),
             "one of " + join(known), nearest_spelling(first, known));
  return nullptr;
}

// Hugging Face's AutoModelForCausalLM goes by model_type; a file that has only `architectures` is
// understood too.
const Family* choose_family(const Json& config, ConfigFields& fields) {
  const std::string model_type = fields.text("model_type", "");
  const Family* by_type = find_family(model_type);
  if (!model_type.empty() && by_type == nullptr) {
    fields.add("model_type", "unknown model type " + shown(Json(model_type)),
               "one of " + join(known_model_types()),
               nearest_spelling(model_type, known_model_types()));
  }
  const Family* by_architecture = find_architecture(config, fields);
  if (by_type != nullptr && by_architecture != nullptr && by_type != by_architecture) {
    fields.add("architectures", std::string("found ") + by_architecture->architecture,
               std::string(by_type->architecture) + " for model_type " + by_type->model_type);
  }
  if (model_type.empty() && by_architecture == nullptr) {
    fields.add("model_type", "missing", "one of " + join(known_model_types()));
  }
  return by_type != nullptr ? by_type : by_architecture;
}

// Codes are packed in words along both sides of a matrix.
void check_quantized_sizes(ConfigFields& fields, const ModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_attention_heads * head_dim", config.attention.query_width()},
      {"num_key_value_heads * head_dim", config.attention.key_value_width()},
      {"the width of an expert", config.experts ? config.experts->width : 0}};
  for (const auto& [name, size] : sizes) {
    if (size % kGptqPackedCodes == 0) continue;
    fields.add(kQuantizationConfig, std::string(name) + " is " + std::to_string(size),
               "a multiple of " + std::to_string(kGptqPackedCodes));
  }
}

// The matrices of a layer but a router's, and the names that the file says instead where it says
// some.
void check_quantized_modules(const Json& hf_config, ConfigFields& fields,
                             const ModelConfig& config) {
  const char* key = "modules_in_block_to_quantize";
  const Json& settings = hf_config.at(kQuantizationConfig);
  if (!settings.contains(key) || settings.at(key).empty()) return;
  std::set<std::string> all, named;
  const std::string end = ".weight";
  const ModelShape shape = shape_of(config);
  for (const TensorShape& tensor : shape.layers.back().tensors) {
    if (tensor.sizes.size() == 1 || tensor.name.ends_with(".gate" + end)) continue;
    all.insert(tensor.name.substr(0, tensor.name.size() - end.size()));
  }
  for (const Json& together : settings.at(key)) {
    for (const Json& name : together.is_array() ? together : Json::array({together}))
      named.insert(name.is_string() ? name.get<std::string>() : shown(name));
  }
  if (named == all) return;
  fields.add("quantization_config." + std::string(key), "found " + shown(settings.at(key)),
             "all linears of the layers: " + join_some({all.begin(), all.end()}));
}

}  // namespace

bool is_mxfp4(const Json& hf_config) {
  const auto found = hf_config.find(kQuantizationConfig);
  return found != hf_config.end() && found->is_object() &&
         found->value("quant_method", Json()) == "mxfp4";
}

ModelConfig parse_model_config(const Json& hf_config, const std::string& origin) {
  std::vector<Diagnostic> findings;
  ConfigFields fields(hf_config, origin, "", findings);
  if (!hf_config.is_object()) {
    fields.add("", "not a JSON object");
    throw InputError(findings);
  }
  const Family* family = choose_family(hf_config, fields);
  // What the other fields have to be depends on the family.
  if (family == nullptr) throw InputError(findings);

  ModelConfig config;
  config.family = family;
  family->read(fields, config);
  const bool clamped = config.experts && config.experts->clamped;  // gpt_oss, the one stored so
  config.mxfp4_experts = clamped && is_mxfp4(hf_config);
  if (is_bitsandbytes(hf_config)) {
    config.nf4 = read_nf4_config(hf_config, origin, findings);
  } else if (!config.mxfp4_experts) {
    config.gptq = read_gptq_config(hf_config, origin, findings);
  }
  if (config.gptq && findings.empty()) {
    check_quantized_sizes(fields, config);
    check_quantized_modules(hf_config, fields, config);
  }
  const bool apart = config.experts && config.experts->storage == ExpertStorage::kApart &&
                     config.shared_intermediate_size == 0;
  if (config.experts && (config.nf4 || config.gptq) && !apart) {
    fields.add(
        kQuantizationConfig,
        std::string("found a mixture of experts quantized in ") + (config.nf4 ? "NF4" : "GPTQ"),
        "weights that are not quantized, a model without experts, or mixtral or qwen3_moe");
  }
  if (!findings.empty()) throw InputError(findings);
  return config;
}

}  // namespace sftbench
