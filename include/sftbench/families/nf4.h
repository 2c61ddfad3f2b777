// Weights that are quantized in NF4 (sftbench/ops/nf4.h), as config.json's `quantization_config` of
// bitsandbytes says it. A linear stands in a file as its dense weight, which is quantized while it
// is read, or as bitsandbytes saves it, in these tensors:
//   weight                              [ceil(out in / 2), 1] uint8   codes, two a byte
//   weight.absmax                       [ceil(out in / 64)]           of blocks, float32; or uint8
//                                                                     (double quantization)
//   weight.nested_absmax                [...] float32                 scales of 256 of those
//   weight.quant_map, .nested_quant_map [16], [256] float32           what codes mean
//   weight.quant_state.bitsandbytes__nf4 [...] uint8                  the rest, as JSON
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

struct Nf4Config {
  bool double_quantized = true;
};

// Whether config.json's quantization_config is one of bitsandbytes.
bool is_bitsandbytes(const Json& hf_config);

// Adds to `findings` what is no NF4: 8 bits, FP4.
// REQUIRES: is_bitsandbytes(hf_config).
Nf4Config read_nf4_config(const Json& hf_config, const std::string& origin,
                          std::vector<Diagnostic>& findings);

// The same as config.json says it.
Json to_json(const Nf4Config& config);

}  // namespace sftbench
