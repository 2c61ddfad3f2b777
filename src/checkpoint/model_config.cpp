#include "sftbench/checkpoint/model_config.h"

#include <algorithm>
#include <array>
#include <utility>

#include "checkpoint/config_fields.h"
#include "checkpoint/rope_config.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

// What differs between the families' configuration classes.
struct FamilyRow {
  ModelFamily family;
  const char* model_type;
  const char* architecture;
  int64_t max_position_embeddings;  // the class's default
};

constexpr std::array<FamilyRow, 3> kFamilies = {{
    {ModelFamily::kGranite, "granite", "GraniteForCausalLM", 2048},
    {ModelFamily::kLlama, "llama", "LlamaForCausalLM", 2048},
    {ModelFamily::kMistral, "mistral", "MistralForCausalLM", 131072},
}};

constexpr int64_t kMistralDefaultKeyValueHeads = 8;
constexpr int64_t kMistralDefaultSlidingWindow = 4096;

const FamilyRow* family_of_type(const std::string& model_type) {
  for (const FamilyRow& row : kFamilies) {
    if (model_type == row.model_type) return &row;
  }
  return nullptr;
}

const FamilyRow* family_of_architecture(const std::string& architecture) {
  for (const FamilyRow& row : kFamilies) {
    if (architecture == row.architecture) return &row;
  }
  return nullptr;
}

std::vector<std::string> known_architectures() {
  std::vector<std::string> names;
  for (const FamilyRow& row : kFamilies) names.emplace_back(row.architecture);
  return names;
}

// The entry of "architectures" that can be built, if there is one; with a finding when none of
// those given can.
const FamilyRow* find_architecture(const Json& config, ConfigFields& fields) {
  const Json* list = fields.find("architectures");
  if (list == nullptr || (list->is_array() && list->empty())) return nullptr;
  if (!list->is_array() ||
      !std::all_of(list->begin(), list->end(), [](const Json& a) { return a.is_string(); })) {
    fields.add("architectures", "found " + shown(*list), "a list of class names");
    return nullptr;
  }
  for (const Json& name : config.at("architectures")) {
    if (const FamilyRow* row = family_of_architecture(name.get<std::string>())) return row;
  }
  const std::vector<std::string> known = known_architectures();
  const std::string first = list->front().get<std::string>();
  fields.add("architectures", "unknown architecture " + shown(list->front()),
             "one of " + join(known), nearest_spelling(first, known));
  return nullptr;
}

// Hugging Face's AutoModelForCausalLM goes by model_type; a file that has only `architectures` is
// understood too.
const FamilyRow* find_family(const Json& config, ConfigFields& fields) {
  const std::string model_type = fields.text("model_type", "");
  const FamilyRow* by_type = family_of_type(model_type);
  if (!model_type.empty() && by_type == nullptr) {
    fields.add("model_type", "unknown model type " + shown(Json(model_type)),
               "one of " + join(known_model_types()),
               nearest_spelling(model_type, known_model_types()));
  }
  const FamilyRow* by_architecture = find_architecture(config, fields);
  if (by_type != nullptr && by_architecture != nullptr && by_type != by_architecture) {
    fields.add("architectures", std::string("found ") + by_architecture->architecture,
               std::string(by_type->architecture) + " for model_type " + by_type->model_type);
  }
  if (model_type.empty() && by_architecture == nullptr) {
    fields.add("model_type", "missing", "one of " + join(known_model_types()));
  }
  return by_type != nullptr ? by_type : by_architecture;
}

void read_heads(ConfigFields& fields, ModelConfig& config) {
  config.num_attention_heads = fields.extent("num_attention_heads");
  const bool mistral_default =
      config.family == ModelFamily::kMistral && !fields.is_null("num_key_value_heads");
  config.num_key_value_heads =
      fields.extent("num_key_value_heads",
                    mistral_default ? kMistralDefaultKeyValueHeads : config.num_attention_heads);
  if (config.num_attention_heads == 0 || config.hidden_size == 0) return;  // already a finding

  if (config.num_attention_heads % config.num_key_value_heads != 0) {
    fields.add(
        "num_key_value_heads", "found " + std::to_string(config.num_key_value_heads),
        "a divisor of num_attention_heads (" + std::to_string(config.num_attention_heads) + ")");
  }
  config.head_dim = fields.extent("head_dim", 0);
  if (config.head_dim == 0) {
    if (config.hidden_size % config.num_attention_heads != 0) {
      fields.add(
          "hidden_size", "found " + std::to_string(config.hidden_size),
          "a multiple of num_attention_heads (" + std::to_string(config.num_attention_heads) + ")");
      return;
    }
    config.head_dim = config.hidden_size / config.num_attention_heads;
  }
  if (config.head_dim % 2 != 0) {
    fields.add("head_dim", "found " + std::to_string(config.head_dim),
               "an even number: rotary embeddings turn pairs");
  }
}

void read_embeddings(ConfigFields& fields, ModelConfig& config) {
  config.vocab_size = fields.extent("vocab_size");
  config.tie_word_embeddings = fields.boolean("tie_word_embeddings", false);
  const Json* pad = fields.find("pad_token_id");
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

void read_family_fields(ConfigFields& fields, ModelConfig& config) {
  if (config.family == ModelFamily::kMistral) {
    config.sliding_window = fields.extent(
        "sliding_window", fields.is_null("sliding_window") ? 0 : kMistralDefaultSlidingWindow);
    return;
  }
  config.attention_bias = fields.boolean("attention_bias", false);
  config.mlp_bias = fields.boolean("mlp_bias", false);
  if (config.family == ModelFamily::kGranite) {
    config.embedding_multiplier = fields.positive("embedding_multiplier", 1.0);
    config.residual_multiplier = fields.positive("residual_multiplier", 1.0);
    config.attention_multiplier = fields.positive("attention_multiplier", 1.0);
    config.logits_scaling = fields.positive("logits_scaling", 1.0);
  }
}

void check_supported(ConfigFields& fields) {
  const std::string activation = fields.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    fields.add("hidden_act", "found " + shown(Json(activation)), "\"silu\"");
  }
}

// Codes are packed in words along both sides of a matrix.
void check_quantised_sizes(ConfigFields& fields, const ModelConfig& config) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"hidden_size", config.hidden_size},
      {"intermediate_size", config.intermediate_size},
      {"num_attention_heads * head_dim", config.num_attention_heads * config.head_dim},
      {"num_key_value_heads * head_dim", config.num_key_value_heads * config.head_dim}};
  for (const auto& [name, size] : sizes) {
    if (size % kGptqPackedCodes == 0) continue;
    fields.add("quantization_config", std::string(name) + " is " + std::to_string(size),
               "a multiple of " + std::to_string(kGptqPackedCodes));
  }
}

double read_dropout(ConfigFields& fields) {
  const double rate =
      fields.number("attention_dropout", 0.0, -1e-300, "a number from 0 to below 1");
  if (rate < 1.0) return rate;
  fields.add("attention_dropout", "found " + shown(Json(rate)), "a number from 0 to below 1");
  return 0.0;
}

}  // namespace

const std::vector<std::string>& known_model_types() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const FamilyRow& row : kFamilies) names.emplace_back(row.model_type);
    return names;
  }();
  return kNames;
}

ModelConfig parse_model_config(const Json& hf_config, const std::string& origin) {
  std::vector<Diagnostic> findings;
  ConfigFields fields(hf_config, origin, "", findings);
  if (!hf_config.is_object()) {
    fields.add("", "not a JSON object");
    throw InputError(findings);
  }
  const FamilyRow* row = find_family(hf_config, fields);
  // What the other fields have to be depends on the family.
  if (row == nullptr) throw InputError(findings);

  ModelConfig config;
  config.family = row->family;
  config.hidden_size = fields.extent("hidden_size");
  config.intermediate_size = fields.extent("intermediate_size");
  config.num_hidden_layers = fields.extent("num_hidden_layers");
  config.max_position_embeddings =
      fields.extent("max_position_embeddings", row->max_position_embeddings);
  config.rms_norm_eps = fields.positive("rms_norm_eps", 1e-6);
  // 0 means the default, as `or 0.02` does in Hugging Face.
  config.initializer_range =
      fields.number("initializer_range", 0.02, -1e-300, "a number of at least 0");
  if (config.initializer_range == 0.0) config.initializer_range = 0.02;
  config.attention_dropout = read_dropout(fields);
  config.dtype = fields.text("dtype", fields.text("torch_dtype", ""));
  read_embeddings(fields, config);
  read_heads(fields, config);
  read_family_fields(fields, config);
  check_supported(fields);
  config.gptq = read_gptq_config(hf_config, origin, findings);
  if (config.gptq && findings.empty()) check_quantised_sizes(fields, config);
  config.rope = read_rope_config(hf_config, origin, config.max_position_embeddings, config.head_dim,
                                 findings);
  if (!findings.empty()) throw InputError(findings);
  return config;
}

}  // namespace sftbench
