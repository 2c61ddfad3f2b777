#include "families/rope_config.h"

#include <array>
#include <optional>

#include "families/config_fields.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

struct RopeTypeRow {
  const char* name;
  RopeType type;
};

constexpr std::array<RopeTypeRow, 5> kRopeTypes = {{
    {"default", RopeType::kDefault},
    {"linear", RopeType::kLinear},
    {"dynamic", RopeType::kDynamic},
    {"llama3", RopeType::kLlama3},
    {"yarn", RopeType::kYarn},
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
  rope.attention_factor = fields.optional_positive("attention_factor");
  // 0 means "not given", as in Hugging Face's `if mscale and mscale_all_dim`.
  for (const char* key : {"mscale", "mscale_all_dim"}) {
    const double value = fields.number(key, 0.0, -1e-300, "a number of at least 0");
    if (value > 0.0) (std::string(key) == "mscale" ? rope.mscale : rope.mscale_all_dim) = value;
  }
}

// Llama 3 and YaRN measure wavelengths against the length of pre-training. A field beside
// rope_parameters goes before one inside (Phi-3 writes it there), and the model's maximum stands in
// for both.
int64_t read_original_length(ConfigFields& top, ConfigFields& fields,
                             int64_t max_position_embeddings) {
  const int64_t inside = fields.extent("original_max_position_embeddings", max_position_embeddings);
  return top.extent("original_max_position_embeddings", inside);
}

void read_scaling(ConfigFields& top, ConfigFields& fields, int64_t max_position_embeddings,
                  int64_t head_dim, RopeConfig& rope) {
  const bool by_length = rope.type == RopeType::kLlama3 || rope.type == RopeType::kYarn;
  if (by_length) {
    rope.original_max_position_embeddings =
        read_original_length(top, fields, max_position_embeddings);
  }
  if (rope.type == RopeType::kYarn && fields.find("factor") == nullptr) {
    rope.factor = static_cast<double>(max_position_embeddings) /
                  static_cast<double>(rope.original_max_position_embeddings);
  } else if (rope.type != RopeType::kDefault) {
    rope.factor = fields.required_positive("factor");
  }
  if (rope.type == RopeType::kLlama3) read_llama3(fields, rope);
  if (rope.type == RopeType::kYarn) read_yarn(fields, rope);
  if (rope.type == RopeType::kDynamic && head_dim == 2) {
    top.add("head_dim", "found 2",
            "more than 2 for dynamic RoPE: its exponent divides by head_dim - 2");
  }
}

}  // namespace

RopeConfig read_rope_config(ConfigFields& top, int64_t max_position_embeddings, int64_t head_dim,
                            double default_theta) {
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
  rope.theta = fields.positive("rope_theta", top.positive("rope_theta", default_theta));
  const double rotated =
      fields.positive("partial_rotary_factor", top.positive("partial_rotary_factor", 1.0));
  if (rotated != 1.0) {
    fields.add("partial_rotary_factor", "found " + shown(Json(rotated)),
               "1: heads are rotated whole");
  }
  const std::optional<RopeType> type = read_type(fields);
  if (!type) return rope;
  rope.type = *type;
  // The base of a logarithm in YaRN, and 1 would give one frequency for all.
  if (rope.theta <= 1.0)
    fields.add("rope_theta", "found " + shown(Json(rope.theta)), "more than 1");
  read_scaling(top, fields, max_position_embeddings, head_dim, rope);
  return rope;
}

}  // namespace sftbench
