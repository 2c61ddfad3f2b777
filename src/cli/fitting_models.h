// Which models of the catalog a GPU trains, by prediction: `models --fits`.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace sftbench {

struct FittingOptions {
  std::string gpu;  // --fits; empty: not asked
  std::string method = "lora";
  int64_t length = 2048;
};

// The fastest way that fits.
struct Fitting {
  double memory_bytes = 0;
  double tokens_per_s = 0;
};

// By name; what does not fit, or cannot be predicted, is left out. InputError for an unknown GPU or
// method.
std::map<std::string, Fitting> fitting_models(const FittingOptions& options);

}  // namespace sftbench
