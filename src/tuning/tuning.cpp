#include "sftbench/tuning/tuning.h"

#include <map>

#include "sftbench/base/error.h"
#include "tuning/full.h"
#include "tuning/lora.h"
#include "tuning/prompt.h"

namespace sftbench {

std::unique_ptr<Tuning> make_tuning(const std::string& name, const TuningOptions& options) {
  using Make = std::unique_ptr<Tuning> (*)(const TuningOptions&);
  static const std::map<std::string, Make> kMethods = {
      {"full", make_full_tuning},
      {"gptq-lora", make_lora_tuning},
      {"lora", make_lora_tuning},
      {"pt", make_prompt_tuning},
  };
  const auto found = kMethods.find(name);
  if (found != kMethods.end()) return found->second(options);

  std::vector<std::string> known;
  for (const auto& row : kMethods) known.push_back(row.first);
  throw unsupported_choice("tuning method", name, known);
}

}  // namespace sftbench
