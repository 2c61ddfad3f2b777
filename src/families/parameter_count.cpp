// Parameters of an architecture. Families that are trained have shapes; of the others this file
// sums the tensors, one function per family, as the Hugging Face module of that family has them.
#include <map>
#include <set>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/families/family.h"
#include "sftbench/families/model_shape.h"

namespace sftbench {
namespace {

// Typed reading of config.json that names what is missing.
class Config {
 public:
  explicit Config(const Json& json) : json_(json) {}

  int64_t integer(const char* key) const {
    if (!json_.contains(key) || !json_[key].is_number_integer()) {
      throw InputError(std::string("config.json: ") + key + ": missing; expected an integer");
    }
    return json_[key].get<int64_t>();
  }
  int64_t integer(const char* key, int64_t otherwise) const {
    return json_.contains(key) && json_[key].is_number_integer() ? json_[key].get<int64_t>()
                                                                 : otherwise;
  }
  bool flag(const char* key, bool otherwise) const {
    return json_.contains(key) && json_[key].is_boolean() ? json_[key].get<bool>() : otherwise;
  }
  Config part(const char* key) const {
    if (!json_.contains(key) || !json_[key].is_object()) {
      throw InputError(std::string("config.json: ") + key + ": missing; expected an object");
    }
    return Config(json_[key]);
  }
  std::string text(const char* key) const {
    return json_.is_object() && json_.contains(key) && json_[key].is_string()
               ? json_[key].get<std::string>()
               : std::string();
  }
  const Json& json() const { return json_; }

 private:
  const Json& json_;
};

int64_t linear(int64_t in, int64_t out, bool bias) {
  return in * out + (bias ? out : 0);
}

int64_t embeddings(const Config& c, bool tied_by_default) {
  const int64_t table = c.integer("vocab_size") * c.integer("hidden_size");
  return c.flag("tie_word_embeddings", tied_by_default) ? table : 2 * table;
}

// q, k, v and o projections with grouped key/value heads.
int64_t grouped_attention(const Config& c) {
  const int64_t hidden = c.integer("hidden_size");
  const int64_t heads = c.integer("num_attention_heads");
  const int64_t head_dim = c.integer("head_dim", hidden / heads);
  const int64_t key_value = c.integer("num_key_value_heads", heads) * head_dim;
  const bool bias = c.flag("attention_bias", false);
  return linear(hidden, heads * head_dim, bias) + 2 * linear(hidden, key_value, bias) +
         linear(heads * head_dim, hidden, bias);
}

int64_t gated_mlp(int64_t hidden, int64_t intermediate, bool bias) {
  return 2 * linear(hidden, intermediate, bias) + linear(intermediate, hidden, bias);
}

int64_t mixture(const Config& c) {
  const int64_t hidden = c.integer("hidden_size");
  const int64_t experts = c.integer("num_local_experts");
  return hidden * experts + experts * gated_mlp(hidden, c.integer("intermediate_size"), false);
}

// mixtral, granitemoe: the MLP is a router and its experts.
int64_t mixture_decoder(const Config& c) {
  const int64_t hidden = c.integer("hidden_size");
  const int64_t layer = grouped_attention(c) + mixture(c) + 2 * hidden;
  return embeddings(c, false) + c.integer("num_hidden_layers") * layer + hidden;
}

int64_t mamba2_mixer(const Config& c) {
  const int64_t hidden = c.integer("hidden_size");
  const int64_t heads = c.integer("mamba_n_heads");
  const int64_t inner = c.integer("mamba_expand") * hidden;
  const int64_t convolved = inner + 2 * c.integer("mamba_n_groups") * c.integer("mamba_d_state");
  const bool bias = c.flag("mamba_proj_bias", false);
  const int64_t convolution =
      convolved * (c.integer("mamba_d_conv") + (c.flag("mamba_conv_bias", true) ? 1 : 0));
  const int64_t per_head = 3 * heads;  // A_log, D, dt_bias
  return linear(hidden, inner + convolved + heads, bias) + convolution + per_head + inner +
         linear(inner, hidden, bias);
}

// granitemoehybrid: each layer mixes by attention or by Mamba-2, then has a shared MLP beside the
// experts.
int64_t hybrid_decoder(const Config& c) {
  const int64_t hidden = c.integer("hidden_size");
  const int64_t layers = c.integer("num_hidden_layers");
  int64_t attention_layers = layers;
  if (c.json().contains("layer_types")) {
    attention_layers = 0;
    for (const Json& type : c.json()["layer_types"])
      attention_layers += type == "attention" ? 1 : 0;
  }
  const int64_t every = 2 * hidden +
                        gated_mlp(hidden, c.integer("shared_intermediate_size"), false) +
                        (c.integer("num_local_experts") > 0 ? mixture(c) : 0);
  const int64_t mamba_layers = layers - attention_layers;
  return embeddings(c, true) + layers * every + hidden + attention_layers * grouped_attention(c) +
         (mamba_layers > 0 ? mamba_layers * mamba2_mixer(c) : 0);
}

// gpt_oss: attention with biases and one sink per head; router and experts have biases, too.
int64_t gpt_oss(const Config& c) {
  const int64_t hidden = c.integer("hidden_size");
  const int64_t inner = c.integer("intermediate_size");
  const int64_t experts = c.integer("num_local_experts");
  const int64_t expert = linear(hidden, 2 * inner, true) + linear(inner, hidden, true);
  const int64_t layer = grouped_attention(c) + c.integer("num_attention_heads") +
                        linear(hidden, experts, true) + experts * expert + 2 * hidden;
  return embeddings(c, false) + c.integer("num_hidden_layers") * layer + hidden;
}

int64_t vision_encoder_layer(int64_t width, int64_t inner) {
  return 4 * linear(width, width, true) + linear(width, inner, true) + linear(inner, width, true) +
         4 * width;
}

// clip_vision_model: a class token, a norm before the encoder; siglip_vision_model: a bias on the
// patches and an attention pooling head instead.
int64_t vision_tower(const Config& c) {
  const int64_t width = c.integer("hidden_size");
  const int64_t inner = c.integer("intermediate_size");
  const int64_t side = c.integer("image_size") / c.integer("patch_size");
  const int64_t patch =
      c.integer("num_channels", 3) * c.integer("patch_size") * c.integer("patch_size");
  const bool siglip = c.text("model_type") == "siglip_vision_model";
  const int64_t encoder =
      c.integer("num_hidden_layers") * vision_encoder_layer(width, inner) + 2 * width;
  const int64_t patches = linear(patch, width, siglip) + side * side * width;
  if (!siglip) return encoder + patches + width + width + 2 * width;
  const int64_t pooling = width + linear(width, 3 * width, true) + linear(width, width, true) +
                          2 * width + linear(width, inner, true) + linear(inner, width, true);
  return encoder + patches + pooling;
}

int64_t llava_next(const Config& c) {
  const Config text = c.part("text_config");
  const Config vision = c.part("vision_config");
  const Json layers = c.json().value("vision_feature_layer", Json(-2));
  const int64_t features =
      vision.integer("hidden_size") * (layers.is_array() ? static_cast<int64_t>(layers.size()) : 1);
  const int64_t width = text.integer("hidden_size");
  const int64_t projector = linear(features, width, true) + linear(width, width, true);
  const int64_t image_newline = width;
  return parameter_count(text.json()) + vision_tower(vision) + projector + image_newline;
}

}  // namespace

int64_t parameter_count(const Json& hf_config) {
  using Counter = int64_t (*)(const Config&);
  static const std::map<std::string, Counter> kFamilies = {
      {"mixtral", mixture_decoder},         {"granitemoe", mixture_decoder},
      {"granitemoehybrid", hybrid_decoder}, {"gpt_oss", gpt_oss},
      {"llava_next", llava_next},
  };
  const std::string family = Config(hf_config).text("model_type");
  if (find_family(family) != nullptr) return shape_of(parse_model_config(hf_config)).parameters();
  const auto found = kFamilies.find(family);
  if (found == kFamilies.end()) {
    std::set<std::string> known(known_model_types().begin(), known_model_types().end());
    for (const auto& entry : kFamilies) known.insert(entry.first);
    throw InputError("config.json: model_type: unknown family '" + family + "'; expected one of " +
                     join({known.begin(), known.end()}));
  }
  return found->second(Config(hf_config));
}

}  // namespace sftbench
