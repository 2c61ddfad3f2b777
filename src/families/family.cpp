#include "sftbench/families/family.h"

#include "families/gpt.h"
#include "families/llama.h"
#include "families/llava.h"
#include "families/predicted.h"
#include "sftbench/base/error.h"

namespace sftbench {

const std::vector<Family>& families() {
  static const std::vector<Family> kFamilies = {kBloomFamily,
                                                kGemma2Family,
                                                kGemma3Family,
                                                kGptBigCodeFamily,
                                                kGptNeoxFamily,
                                                kGptOssFamily,
                                                kGraniteFamily,
                                                kGraniteMoeFamily,
                                                kGraniteMoeHybridFamily,
                                                kGraniteMoeSharedFamily,
                                                kLlamaFamily,
                                                kLlavaNextFamily,
                                                kMistralFamily,
                                                kMixtralFamily,
                                                kOlmo2Family,
                                                kPhi3Family,
                                                kQwen2Family,
                                                kQwen3Family,
                                                kSmolLm3Family,
                                                kStarcoder2Family};
  return kFamilies;
}

const Family& family_of(ModelFamily id) {
  for (const Family& family : families()) {
    if (family.id == id) return family;
  }
  check(false, "every family has a row");
  return families().front();
}

const Family* find_family(const std::string& model_type) {
  for (const Family& family : families()) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

const std::vector<std::string>& known_model_types() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names;
    for (const Family& family : families()) {
      if (family.trains) names.emplace_back(family.model_type);
    }
    return names;
  }();
  return kNames;
}

}  // namespace sftbench
