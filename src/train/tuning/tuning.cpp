#include "sftbench/tuning/tuning.h"

#include "sftbench/base/error.h"
#include "tuning/full.h"
#include "tuning/lora.h"
#include "tuning/prompt.h"

namespace sftbench {

std::unique_ptr<Tuning> make_tuning(TuningMethod method, const TuningOptions& options) {
  switch (method) {
    case TuningMethod::kFull:
      return make_full_tuning(options);
    case TuningMethod::kGptqLora:  // to LoRA, quantized linears are linears
      if (options.lora.magnitudes) {
        throw RunError(ReasonCode::kUnsupported,
                       "lora.use_dora: peft has no DoRA over GPTQ; tuning lora or qlora works");
      }
      return make_lora_tuning(options);
    case TuningMethod::kLora:
    case TuningMethod::kQlora:
      return make_lora_tuning(options);
    case TuningMethod::kPrompt:
      return make_prompt_tuning(options);
  }
  check(false, "every method has a case");
  return nullptr;
}

}  // namespace sftbench
