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
