#include "families/rope_config.h"

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "families/config_fields.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

struct RopeTypeRow {
  const char* name;
  RopeType type;
};

constexpr std::array<RopeTypeRow, 6> kRopeTypes = {{
    {"default", RopeType::kDefault},
    {"linear", RopeType::kLinear},
    {"dynamic", RopeType::kDynamic},
    {"llama3", RopeType::kLlama3},
    {"yarn", RopeType::kYarn},
    {"longrope", RopeType::kLong},
}};

std::optional<RopeType> read_type(ConfigFields& fields) {
  const std::string name = fields.text("rope_type", fields.text("type", "default"));
  std::vector<std::string> known;
  for (const RopeTypeRow& row : kRopeTypes) {
    if (name == row.name) return row.type;
    known.emplace_back(row.name);
  }
  fields.add("rope_type", "unknown type " + shown(Json(name)), "one of " + join(known),
             nearest_spelling(name, known));
  return std::nullopt;
}

void read_llama3(ConfigFields& fields, RopeConfig& rope) {
  rope.low_freq_factor = fields.required_positive("low_freq_factor");
  rope.high_freq_factor = fields.required_positive("high_freq_factor");
  // Equal factors would divide by zero, which Hugging Face only warns of.
  const bool both =
      fields.find("low_freq_factor") != nullptr && fields.find("high_freq_factor") != nullptr;
  if (both && rope.high_freq_factor <= rope.low_freq_factor) {
    fields.add("high_freq_factor", "found " + shown(*fields.find("high_freq_factor")),
               "more than low_freq_factor (" + shown(*fields.find("low_freq_factor")) + ")");
  }
}

void read_yarn(ConfigFields& fields, RopeConfig& rope) {
  rope.beta_fast = fields.positive("beta_fast", 32.0);
  rope.beta_slow = fields.positive("beta_slow", 1.0);
  rope.truncate = fields.boolean("truncate", true);
  // 0 means "not given", as in Hugging Face's `if mscale and mscale_all_dim`.
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    const double value = fields.number(key, 0.0, -1e-300, "a number of at least 0");
    if (value > 0.0) (std::string(key) == "mscale" ? rope.mscale : rope.mscale_all_dim) = value;
  }
}

// A factor for each pair.
std::vector<double> read_factors(ConfigFields& fields, const std::string& key, int64_t pairs) {
  const Json* list = fields.find(key);
  std::vector<double> factors;
  if (list != nullptr && list->is_array()) {
    for (const Json& factor : *list) {
      if (factor.is_number() && factor.get<double>() > 0) factors.push_back(factor);
    }
  }
  const bool whole = list != nullptr && list->size() == factors.size();
  if (!whole || static_cast<int64_t>(factors.size()) != pairs) {
    fields.add(key, list == nullptr ? "missing" : "found " + shown(*list),
               "a list of " + counted(pairs, "number") + " above 0, one for each pair");
  }
  return factors;
}

// Llama 3, YaRN and LongRoPE measure lengths against that of pre-training. A field beside
// rope_parameters goes before one inside (Phi-3 writes it there), then what the class has, and the
// model's maximum stands in for all.
int64_t read_original_length(ConfigFields& top, ConfigFields& fields, const RopeDefaults& defaults,
                             int64_t max_position_embeddings) {
  const int64_t inside = fields.extent("original_max_position_embeddings", max_position_embeddings);
  return top.extent("original_max_position_embeddings",
                    defaults.original_length > 0 ? defaults.original_length : inside);
}

void read_scaling(ConfigFields& top, ConfigFields& fields, int64_t max_position_embeddings,
                  const RopeDefaults& defaults, RopeConfig& rope) {
  const bool tempered = rope.type == RopeType::kYarn || rope.type == RopeType::kLong;
  if (rope.type == RopeType::kLlama3 || tempered) {
    rope.original_max_position_embeddings =
        read_original_length(top, fields, defaults, max_position_embeddings);
  }
  if (tempered) rope.attention_factor = fields.optional_positive("attention_factor");
  if (tempered && fields.find("factor") == nullptr) {
    rope.factor = static_cast<double>(max_position_embeddings) /
                  static_cast<double>(rope.original_max_position_embeddings);
  } else if (rope.type != RopeType::kDefault) {
    rope.factor = fields.required_positive("factor");
  }
  if (rope.type == RopeType::kLlama3) read_llama3(fields, rope);
  if (rope.type == RopeType::kYarn) read_yarn(fields, rope);
  if (rope.type == RopeType::kLong) {
    rope.short_factors = read_factors(fields, "short_factor", rope.dim / 2);
    rope.long_factors = read_factors(fields, "long_factor", rope.dim / 2);
  }
  if (rope.type == RopeType::kDynamic && rope.dim == 2) {
    top.add("head_dim", "found 2",
            "more than 2 for dynamic RoPE: its exponent divides by head_dim - 2");
  }
}

// How many values of a head are rotated, which come in pairs.
int64_t read_dim(ConfigFields& top, ConfigFields& fields, const RopeDefaults& defaults,
                 int64_t head_dim) {
  const double otherwise = defaults.share > 0 ? defaults.share : 1.0;
  const double share =
      fields.positive("partial_rotary_factor", top.positive(defaults.share_key, otherwise));
  const auto dim = static_cast<int64_t>(std::min(share, 1.0) * static_cast<double>(head_dim));
  if (defaults.share == 0 && share != 1.0) {
    fields.add("partial_rotary_factor", "found " + shown(Json(share)),
               "1: heads are rotated whole");
  } else if (defaults.share > 0 && head_dim > 0 && (share > 1.0 || dim < 2 || dim % 2 != 0)) {
    fields.add("partial_rotary_factor", "found " + shown(Json(share)),
               "a share of " + std::to_string(head_dim) + " (head_dim) that is even");
  }
  return defaults.share == 0 ? head_dim : dim;
}

}  // namespace

RopeConfig read_rope_config(ConfigFields& top, int64_t max_position_embeddings, int64_t head_dim,
                            const RopeDefaults& defaults) {
  const Json* scaling = top.find("rope_scaling");
  const bool old_spelling = scaling != nullptr && !scaling->empty();
  const std::string key = old_spelling ? "rope_scaling" : "rope_parameters";
  static const Json kNothing = Json::object();
  const Json* found = top.find(key);
  const Json& object = found != nullptr ? *found : kNothing;

  RopeConfig rope;
  if (!object.is_object()) {
    top.add(key, "found " + shown(object), "an object");
    return rope;
  }
  for (const auto& [name, value] : object.items()) {
    if (!value.is_object()) continue;
    top.add(key + "." + name, "different rotary embeddings by layer type",
            "one rotary embedding for all layers");
    return rope;
  }

  ConfigFields fields = top.of(object, key + ".");
  rope.theta = fields.positive("rope_theta", top.positive(defaults.theta_key, defaults.theta));
  rope.dim = read_dim(top, fields, defaults, head_dim);
  const std::optional<RopeType> type = read_type(fields);
  if (!type) return rope;
  rope.type = *type;
  // The base of a logarithm in YaRN, and 1 would give one frequency for all.
  if (rope.theta <= 1.0)
    fields.add("rope_theta", "found " + shown(Json(rope.theta)), "more than 1");
  read_scaling(top, fields, max_position_embeddings, defaults, rope);
  if (!defaults.grows_queries) return rope;
  rope.query_growth = fields.number("llama_4_scaling_beta", 0.0, -1e-300, "a number of at least 0");
  if (rope.query_growth > 0 && rope.type != RopeType::kYarn)
    fields.add("rope_type", "found another type beside llama_4_scaling_beta", "\"yarn\"");
  return rope;
}

}  // namespace sftbench
