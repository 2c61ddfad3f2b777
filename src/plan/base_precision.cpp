#include "sftbench/plan/base_precision.h"

#include "plan/known_model.h"
#include "plan/model_source.h"
#include "sftbench/families/family.h"

namespace sftbench {

std::string narrower_range_warning(const TrainingJob& job) {
  const bool parameters = job.precision.torch_dtype == ParameterDtype::kFloat16;
  const bool products = job.precision.autocast == Autocast::kFp16;
  if (!parameters && !products) return {};
  if (job.model.weights_directory.empty() || row_of(job.tuning).quantized_weights) return {};
  if (find_family(family_of(job.model.hf_config)) == nullptr) return {};
  if (known_model(job.model).config.dtype != "bfloat16") return {};
  return (parameters ? "torch_dtype float16"
                     : "accelerate_config_mixed_precision fp16, which computes in float16,") +
         std::string(
             " over a model that config.json says is bfloat16: what exceeds 65504 becomes "
             "infinite; ") +
         (parameters ? "bfloat16 or float32 has its range" : "bf16 or no has its range");
}

}  // namespace sftbench
