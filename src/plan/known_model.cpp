#include "plan/known_model.h"

#include <map>

namespace sftbench {
namespace {

constexpr size_t kMostRemembered = 64;

}  // namespace

const KnownModel& known_model(const ModelSource& source) {
  thread_local std::map<std::string, KnownModel> known;
  const auto found = known.find(source.name);
  if (found != known.end() && found->second.hf_config == source.hf_config) return found->second;
  const ModelConfig config = parse_model_config(source.hf_config, source.name);
  KnownModel model = {source.hf_config, config, shape_of(config)};
  if (known.size() >= kMostRemembered) known.clear();
  return known[source.name] = std::move(model);
}

}  // namespace sftbench
