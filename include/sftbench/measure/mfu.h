// Model FLOPs utilisation: the FLOPs that the model's mathematics needs, over what the devices
// could have done in the same time.
//
//   FLOPs of a token = 2 N (forward) + 2 N (gradient of activations) + 2 N_trainable (gradient of
//                      weights) + 3 x causal attention of the forward pass
//   MFU              = FLOPs of the measured tokens / (runtime x devices x peak FLOP/s of a device)
//
// N counts the parameters that a token is multiplied with: all of them, less an input embedding
// that is only looked up; norms and biases (below 0.1 %) are counted, too. With every parameter
// trained this is 6 N plus attention; with adapters it is 4 N plus 2 of the adapters, which frozen
// linears allow: they have a gradient to hand on, but none of their own. (Of the first adapted
// layer its own q, k and v need not hand it on: 0.2 % of SmolLM2-135M, counted all the same.)
// Virtual tokens of prompt tuning are positions like any other. Tokens are padded positions, since
// the device computes those as well; what activation checkpointing computes twice counts once.
// Sources: Kaplan et al. 2020 (arXiv 2001.08361), section 2.1: 6 N; Chowdhery et al. 2022 (arXiv
// 2204.02311), appendix B: attention, and recomputation not counted. LLMForge's variant is 2 * 3 *
// tokens * all parameters, without attention; it is reported beside ours.
#pragma once

#include <optional>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/measure/run_record.h"

namespace sftbench {

// What one device can do at most, in the dtype that GEMMs ran in; or why that is not known.
struct DevicePeak {
  std::optional<double> flops_per_s;
  std::string reason;  // of its absence
};

// FLOPs per padded token of the span, forward and backward.
double model_flops_per_token(const TrainBegin& model, const MeasuredSpan& span);

// {value, model_flops_per_token, peak_flops_per_device, achieved_flops_per_device, llmforge_value,
// reason}: value and llmforge_value are null, with a reason, when the peak is not known.
Json model_flops_utilization(const TrainBegin& model, const MeasuredSpan& span, int devices,
                             const DevicePeak& peak);

}  // namespace sftbench
