// Linears in NF4 out of a checkpoint that has them dense, which quantizes them, or as bitsandbytes
// saves them: families/nf4.h.
#pragma once

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "model/nf4_linear.h"
#include "model/weight_source.h"
#include "sftbench/base/error.h"
#include "sftbench/model/causal_lm.h"

namespace sftbench {

struct Nf4Assignment {
  Nf4Linear* linear;
  std::string name;  // of its weight
  Source weight;
  std::optional<Source> absmax, nested_absmax, state;
  bool wanted;
  bool dense = false;  // only `weight` is read
};

// What stands in the place of each linear's weight, or a finding. `used` gets the names of tensors.
std::vector<Nf4Assignment> match_nf4(CausalLm& model, const std::filesystem::path& directory,
                                     const Sources& sources, const WantedElements& wanted,
                                     std::set<std::string>& used,
                                     std::vector<Diagnostic>& findings);

// Those that are wanted. `transposed`: dense weights are stored [in, out]. InputError for a state
// of bitsandbytes that is not read here.
void load_nf4(const std::vector<Nf4Assignment>& linears, bool transposed, WorkCount* work);

}  // namespace sftbench
