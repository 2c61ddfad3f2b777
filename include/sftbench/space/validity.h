// The static rules that say, before anything runs, whether an entity can be measured at all.
// Source: "is_valid logic" of the SFTTrainer documentation; the order of checking is ado's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/catalog/models.h"

namespace sftbench {

struct Violation {
  ReasonCode code;      // kRule1..kRule7: the rule's number in the documents
  std::string message;  // with the values that break it
};

// The inputs that the rules read. An expansion keeps one of these and changes what differs between
// an entity and the next.
struct RuleInputs {
  int64_t batch_size = 1;
  int64_t number_gpus = 0;
  int64_t number_nodes = 1;
  int64_t fast_moe = 0;
  int64_t context_parallel = 1;  // ranks that read the same entries
  std::string gpu_model;
  std::string model_name;
  std::string fms_hf_tuning_version;

  // Takes over a canonical value; one of another type than the rule expects is left out. False, and
  // nothing is changed, when no rule reads the property.
  bool set(std::string_view property, const Json& value);
};

// Every rule that the inputs break, in ado's order: the first one is the reason that is reported.
// Empty: valid. `models` supplies the number of experts for rule 7.
std::vector<Violation> validate(const RuleInputs& inputs, const ModelCatalog& models);

// The same for all inputs of a measurement: canonical, defaults filled.
std::vector<Violation> validate(const Json& inputs, const ModelCatalog& models);

}  // namespace sftbench
