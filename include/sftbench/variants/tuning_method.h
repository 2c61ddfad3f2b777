// Tuning methods: what of a model is trained. src/train/tuning/ has a file for each.
#pragma once

#include <array>

#include "sftbench/base/named.h"

namespace sftbench {

enum class TuningMethod { kFull, kGptqLora, kLora, kPrompt, kQlora };

struct TuningMethodRow {
  TuningMethod kind;
  const char* name;
  bool trains_weights = false;     // the model's own
  bool adds_adapters = false;      // peft's LoRA, beside the linears
  bool quantized_weights = false;  // which are frozen: those of GPTQ checkpoints, or
  bool quantizes = false;          // of any checkpoint, in NF4
};

inline constexpr std::array kTuningMethods = {
    TuningMethodRow{.kind = TuningMethod::kFull, .name = "full", .trains_weights = true},
    TuningMethodRow{.kind = TuningMethod::kGptqLora,
                    .name = "gptq-lora",
                    .adds_adapters = true,
                    .quantized_weights = true},
    TuningMethodRow{.kind = TuningMethod::kLora, .name = "lora", .adds_adapters = true},
    TuningMethodRow{.kind = TuningMethod::kPrompt, .name = "pt"},
    TuningMethodRow{.kind = TuningMethod::kQlora,
                    .name = "qlora",
                    .adds_adapters = true,
                    .quantized_weights = true,
                    .quantizes = true},
};
static_assert(is_in_order(kTuningMethods));

constexpr bool is_of_gptq(TuningMethod method) {
  return method == TuningMethod::kGptqLora;
}

constexpr const auto& rows_of(TuningMethod) {
  return kTuningMethods;
}
constexpr const char* noun_of(TuningMethod) {
  return "tuning method";
}

}  // namespace sftbench
