#include "sftbench/plan/base_precision.h"

#include "plan/model_source.h"
#include "sftbench/families/family.h"
#include "sftbench/families/lora_fit.h"
#include "sftbench/plan/known_model.h"

namespace sftbench {
namespace {

// As bitsandbytes takes a name of its list for a module: the whole name, its end, or a module
// around it.
bool is_skipped(const std::string& linear, const std::string& module) {
  return linear == module || linear.ends_with("." + module) || linear.starts_with(module + ".") ||
         linear.find("." + module + ".") != linear.npos;
}

// Files hold these linears dense, and here all of them are read in 4 bits.
std::string skipped_linears_refusal(const ModelSource& model) {
  const Json skipped =
      model.hf_config.at("quantization_config").value("llm_int8_skip_modules", Json());
  if (!skipped.is_array()) return {};
  const KnownModel& known = known_model(model);
  const std::vector<AdaptedLinear> linears = linears_of(known.config, known.shape);
  for (const Json& module : skipped) {
    if (!module.is_string()) continue;
    for (const AdaptedLinear& linear : linears) {
      if (linear.of_tokens || !is_skipped(linear.name, module.get_ref<const std::string&>()))
        continue;
      return "the weights of " + model.name + " leave " + linear.name +
             " dense (quantization_config.llm_int8_skip_modules of config.json), and a model with "
             "all linears of its layers in 4 bits is trained; the model without "
             "quantization_config works, under qlora, too";
    }
  }
  return {};
}

}  // namespace

std::string weights_refusal(const ModelSource& model, TuningMethod tuning) {
  const ModelConfig& config = known_model(model).config;
  const TuningMethodRow& method = row_of(tuning);
  const bool fits = config.nf4    ? method.quantizes
                    : config.gptq ? is_of_gptq(tuning)
                                  : !method.quantized_weights;
  if (fits) return config.nf4 ? skipped_linears_refusal(model) : std::string();
  const std::string weights = "the weights of " + model.name;
  if (!config.nf4 && !config.gptq) {
    return weights +
           " are not quantized: config.json has no quantization_config; tuning lora works";
  }
  return weights + " are quantized (" + (config.nf4 ? "NF4" : "GPTQ") + "), and tuning " +
         method.name + " trains weights that are not; " + (config.nf4 ? "qlora" : "gptq-lora") +
         " works";
}

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
