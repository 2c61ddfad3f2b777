// The static rules that say, before anything runs, whether an entity can be measured at all.
// Source: "is_valid logic" of the SFTTrainer documentation; the order of checking is ado's.
#pragma once

#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/catalog/models.h"

namespace sftbench {

struct Violation {
  ReasonCode code;      // kRule1..kRule7: the rule's number in the documents
  std::string message;  // with the values that break it
};

// Every rule that `inputs` (canonical, defaults filled) break, in ado's order: the first one is the
// reason that is reported. Empty: valid. `models` supplies the number of experts for rule 7.
std::vector<Violation> validate(const Json& inputs, const ModelCatalog& models);

}  // namespace sftbench
