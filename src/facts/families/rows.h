// Every family, sorted by model_type. A family is a source file here and a line of this list.
#pragma once

#include "sftbench/families/family.h"

// clang-format off
#define SFTBENCH_FAMILIES(row) \
  row(kBloomFamily) \
  row(kCohere2Family) \
  row(kExaone4Family) \
  row(kGemmaFamily) \
  row(kGemma2Family) \
  row(kGemma3VisionFamily) \
  row(kGemma3Family) \
  row(kGpt2Family) \
  row(kGptBigCodeFamily) \
  row(kGptNeoxFamily) \
  row(kGptOssFamily) \
  row(kGraniteFamily) \
  row(kGraniteMoeFamily) \
  row(kGraniteMoeHybridFamily) \
  row(kGraniteMoeSharedFamily) \
  row(kIdefics3Family) \
  row(kLlamaFamily) \
  row(kLlavaNextFamily) \
  row(kMinistral3Family) \
  row(kMistralFamily) \
  row(kMistral3Family) \
  row(kMixtralFamily) \
  row(kOlmo2Family) \
  row(kOlmo3Family) \
  row(kPhi3Family) \
  row(kQwen2Family) \
  row(kQwen2MoeFamily) \
  row(kQwen3Family) \
  row(kQwen3MoeFamily) \
  row(kSmolLm3Family) \
  row(kSmolVlmFamily) \
  row(kStableLmFamily) \
  row(kStarcoder2Family)
// clang-format on

namespace sftbench {

#define SFTBENCH_DECLARE(name) extern const Family name;
SFTBENCH_FAMILIES(SFTBENCH_DECLARE)
#undef SFTBENCH_DECLARE

}  // namespace sftbench
