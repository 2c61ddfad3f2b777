#include "engine/trained_state.h"

#include <array>
#include <cstdio>
#include <utility>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

constexpr std::array<std::pair<ops::QuantMap, const char*>, 4> kMaps = {
    {{ops::QuantMap::kSigned8, "signed8"},
     {ops::QuantMap::kUnsigned8, "unsigned8"},
     {ops::QuantMap::kSigned4, "signed4"},
     {ops::QuantMap::kUnsigned4, "unsigned4"}}};

}  // namespace

bool TrainedState::saves(const ParameterInfo& info) const {
  if (!has_adapters() || info.trains) return true;
  const ModelNames& names = model.names();
  return adds_rows && (info.name == std::string(names.embedding) + ".weight" ||
                       info.name == std::string(names.output) + ".weight");
}

std::string saved_format(const TrainingJob& job, const ParallelParameters& parameters) {
  const StateDictType type =
      parameters.whole() ? StateDictType::kFull : job.parallel.state_dict_type;
  return row_of(type).format;
}

std::string rank_file_name(const std::string& stem, const RankGroup& group) {
  char name[96];
  std::snprintf(name, sizeof name, "%s-rank-%05d-of-%05d.safetensors", stem.c_str(), group.rank(),
                group.world_size());
  return name;
}

std::string map_name(ops::QuantMap map) {
  for (const auto& [known, name] : kMaps) {
    if (known == map) return name;
  }
  check(false, "every map has a name");
  return {};
}

ops::QuantMap map_of_name(const std::string& name) {
  for (const auto& [map, known] : kMaps) {
    if (name == known) return map;
  }
  throw InputError("codes of a quantized state have the map '" + name +
                   "'; expected signed8, unsigned8, signed4 or unsigned4");
}

}  // namespace sftbench
