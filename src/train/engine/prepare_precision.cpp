#include "engine/prepare_precision.h"

#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/dequantize.h"
#include "sftbench/ops/fp8_linear.h"
#include "sftbench/ops/product_dtype.h"

namespace sftbench {
namespace {

torch::Dtype torch_dtype(ParameterDtype dtype) {
  switch (dtype) {
    case ParameterDtype::kBfloat16:
      return torch::kBFloat16;
    case ParameterDtype::kFloat16:
      return torch::kFloat16;
    case ParameterDtype::kFloat32:
      return torch::kFloat32;
  }
  return torch::kFloat32;
}

const char* product_name(torch::Dtype dtype) {
  if (dtype == torch::kBFloat16) return "bfloat16";
  return dtype == torch::kFloat16 ? "float16" : "float32";
}

// The dtype that GEMMs are asked to run in: autocast's, else the parameters'.
torch::Dtype requested_compute_dtype(const PrecisionPlan& plan) {
  return autocast_dtype(plan.autocast).value_or(torch_dtype(plan.torch_dtype));
}

// Quantized weights take no dtype of their own into a product, so that a model of theirs in
// float16, which CPUs do not multiply, computes in another one from end to end.
bool computes_wholly_elsewhere(const CausalLm& model, const PrecisionPlan& plan,
                               const torch::Device& device) {
  return (model.config().gptq || model.config().nf4) &&
         plan.torch_dtype == ParameterDtype::kFloat16 &&
         ops::float16_compute_dtype(device) != torch::kFloat16;
}

}  // namespace

void require_precision(const PrecisionPlan& plan, const torch::Device& device) {
  if (plan.autocast != Autocast::kFp8) return;
  const std::string obstacle = ops::fp8_obstacle(device);
  if (obstacle.empty()) return;
  throw RunError(ReasonCode::kUnsupported,
                 "mixed precision fp8: " + obstacle + "; mixed precision bf16 works here");
}

std::optional<torch::Dtype> autocast_dtype(Autocast autocast) {
  const std::optional<ParameterDtype> dtype = row_of(autocast).dtype;
  if (!dtype) return {};
  return torch_dtype(*dtype);
}

std::optional<torch::Dtype> gathered_dtype(const CausalLm& model, const PrecisionPlan& plan,
                                           const torch::Device& device) {
  // The model casts each parameter where it uses it, and wants its gradient in the parameter's
  // dtype.
  if (computes_wholly_elsewhere(model, plan, device)) return {};
  return autocast_dtype(plan.autocast);
}

torch::Dtype parameter_dtype(const PrecisionPlan& plan) {
  return torch_dtype(plan.torch_dtype);
}

std::string apply_precision(CausalLm& model, const PrecisionPlan& plan,
                            const torch::Device& device) {
  const torch::Dtype dtype = requested_compute_dtype(plan);
  if (plan.autocast == Autocast::kFp8) {
    model.multiply_in_fp8();
    return "fp8";
  }
  if (computes_wholly_elsewhere(model, plan, device)) {
    model.compute_in(ops::float16_compute_dtype(device));
    return product_name(ops::float16_compute_dtype(device));
  }
  if (plan.autocast != Autocast::kNo) model.set_compute_dtype(dtype);
  return product_name(ops::product_dtype(dtype, device));
}

std::unique_ptr<LossScaler> choose_loss_scaler(const PrecisionPlan& plan,
                                               const std::vector<OwnedTensor>& trained) {
  if (plan.autocast != Autocast::kFp16) return make_unit_loss_scaler();
  for (const OwnedTensor& owned : trained) {
    if (owned.tensor.scalar_type() != torch::kFloat16) continue;
    throw RunError(
        ReasonCode::kUnsupported,
        "mixed precision fp16 scales the loss, and float16 gradients cannot be unscaled: " +
            owned.name +
            " is float16; torch_dtype float32 or bfloat16 works, or mixed precision no");
  }
  return make_dynamic_loss_scaler();
}

}  // namespace sftbench
