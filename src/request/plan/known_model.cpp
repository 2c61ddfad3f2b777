#include "sftbench/plan/known_model.h"

#include <algorithm>
#include <map>
#include <string>

#include "plan/model_source.h"
#include "sftbench/families/family.h"

namespace sftbench {
namespace {

constexpr size_t kMostRemembered = 64;

bool cost_the_same(const LayerShape& a, const LayerShape& b) {
  return a.window == b.window && a.query_width == b.query_width &&
         a.scanned_values == b.scanned_values && a.parameters() == b.parameters();
}

std::vector<LayerKind> kinds_of(const std::vector<LayerShape>& layers) {
  std::vector<LayerKind> kinds;
  for (size_t i = 0; i < layers.size(); ++i) {
    const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const LayerKind& kind) {
      return cost_the_same(layers[kind.layer], layers[i]);
    });
    if (found == kinds.end()) {
      kinds.push_back({i, 1});
    } else {
      ++found->count;
    }
  }
  return kinds;
}

}  // namespace

const KnownModel& known_model(const ModelSource& source) {
  thread_local std::map<std::string, KnownModel> known;
  const auto found = known.find(source.name);
  if (found != known.end() && found->second.hf_config == source.hf_config) return found->second;
  const ModelConfig config = parse_model_config(source.hf_config, source.name);
  KnownModel model = {source.hf_config, config, shape_of(config), {}};
  model.kinds = kinds_of(model.shape.layers);
  if (known.size() >= kMostRemembered) known.clear();
  return known[source.name] = std::move(model);
}

std::string note_on_positions(const ModelSource& source, int64_t model_max_length) {
  if (find_family(family_of(source.hf_config)) == nullptr) return {};
  const int64_t positions = known_model(source).config.max_position_embeddings;
  if (positions == 0 || model_max_length <= positions) return {};
  return "model_max_length " + std::to_string(model_max_length) + " is beyond the " +
         std::to_string(positions) + " positions (max_position_embeddings) of model_name " +
         source.name;
}

}  // namespace sftbench
