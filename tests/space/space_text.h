// Space files for tests: a whole one with one dimension, one experiment or one top-level key
// replaced.
#pragma once

#include <string>

#include "sftbench/base/error.h"
#include "sftbench/space/space.h"

namespace sftbench {

// The required properties, one value each, as lines of entitySpace (lines 3 to 6 of space_text()).
inline const char* const kRequired =
    "  - {identifier: model_name, propertyDomain: {values: [smollm2-135m]}}\n"
    "  - {identifier: number_gpus, propertyDomain: {values: [0]}}\n"
    "  - {identifier: model_max_length, propertyDomain: {values: [512]}}\n"
    "  - {identifier: batch_size, propertyDomain: {values: [1]}}\n";

// `dimensions`: lines of entitySpace (from line 3 on); `parameterization`: its YAML list; `more`:
// top-level lines.
inline std::string space_text(const std::string& dimensions,
                              const std::string& parameterization = "[]",
                              const std::string& more = {}) {
  return "experiments: [{experimentIdentifier: finetune_full_benchmark-v1.0.0, actuatorIdentifier: "
         "SFTTrainer, "
         "parameterization: " +
         parameterization + "}]\nentitySpace:\n" + dimensions + "sampleStoreIdentifier: demo\n" +
         more;
}

inline Space parse(const std::string& text, const SpaceOptions& options = {}) {
  return parse_space(text, "s.yaml", Catalog::shipped(), options);
}

// What is wrong with the text; "no error" when it can be read.
inline std::string error_of(const std::string& text, const SpaceOptions& options = {}) {
  try {
    parse(text, options);
  } catch (const InputError& error) {
    return error.what();
  }
  return "no error";
}

// What is wrong with one more dimension: a property and its domain.
inline std::string domain_error(const std::string& property, const std::string& domain) {
  return error_of(space_text(std::string(kRequired) + "  - {identifier: " + property +
                             ", propertyDomain: " + domain + "}\n"));
}

}  // namespace sftbench
