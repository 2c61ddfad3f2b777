// Weights quantized with GPTQ (Frantar et al. 2022) as AutoGPTQ and GPTQModel save them: what
// config.json's `quantization_config` says, and the layout that follows from it. A linear of `in`
// to `out` features stands in the file as four tensors:
//   qweight [in * bits / 32, out] int32     codes, 32 of them in `bits` words down each column
//   qzeros  [groups, out * bits / 32] int32 codes of the zeros, packed along each row
//   scales  [groups, out] float16
//   g_idx   [in] int32                      the group of each input feature
// and w[o, i] = scales[g_idx[i], o] * (q[i, o] - z[g_idx[i], o]).
// Code k of 32 begins at bit k * bits of its words, taken together as one number, lowest first; so
// codes of 3 bits cross words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json.h"

namespace sftbench {

inline constexpr int64_t kGptqPackedCodes = 32;  // of which in and out are multiples

struct GptqConfig {
  int64_t bits = 4;          // 2, 3, 4 or 8
  int64_t group_size = 128;  // input features that share scale and zero; -1: all of them
  // Features are grouped by the order in which they were quantized, which is by their activations:
  // g_idx is any assignment of features to groups.
  bool desc_act = false;
  bool sym = true;  // every zero is the middle code
  // checkpoint_format "gptq": zeros are stored less one; "gptq_v2": as they are.
  bool zeros_less_one = true;

  int64_t groups(int64_t in_features) const;
  std::vector<int64_t> qweight_shape(int64_t in_features, int64_t out_features) const;
  std::vector<int64_t> qzeros_shape(int64_t in_features, int64_t out_features) const;
  std::vector<int64_t> scales_shape(int64_t in_features, int64_t out_features) const;
};

// The quantization_config of a Hugging Face config.json, or nothing where it has none. Adds to
// `findings`, each with key, what was found and what is expected: another method, another layout,
// bits or group sizes that there are not, modules that are treated differently.
std::optional<GptqConfig> read_gptq_config(const Json& hf_config, const std::string& origin,
                                           std::vector<Diagnostic>& findings);

// The same as config.json says it.
Json to_json(const GptqConfig& config);

}  // namespace sftbench
