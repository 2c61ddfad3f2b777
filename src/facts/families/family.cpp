#include "sftbench/families/family.h"

#include "families/rows.h"
#include "sftbench/base/error.h"

namespace sftbench {

const std::vector<Family>& families() {
#define SFTBENCH_ROW(name) name,
  static const std::vector<Family> kFamilies = {SFTBENCH_FAMILIES(SFTBENCH_ROW)};
#undef SFTBENCH_ROW
  return kFamilies;
}

const Family& family_of(const ModelConfig& config) {
  check(config.family != nullptr, "a configuration that was read has a family");
  return *config.family;
}

const Family* find_family(const std::string& model_type) {
  for (const Family& family : families()) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

bool is_vision_family(const std::string& model_type) {
  const Family* family = find_family(model_type);
  return family != nullptr && family->model_class == ModelClass::kVision;
}

bool is_text_part_family(const std::string& model_type) {
  const Family* family = find_family(model_type);
  return family != nullptr && family->canonical_name != nullptr &&
         family->model_class != ModelClass::kVision;
}

const std::vector<std::string>& known_model_types() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Family& family : families()) names.emplace_back(family.model_type);
    return names;
  }();
  return kNames;
}

}  // namespace sftbench
