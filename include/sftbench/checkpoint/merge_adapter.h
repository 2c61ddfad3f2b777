// A LoRA adapter added to the weights that it was trained on: what peft's merge_and_unload makes,
// written as a folder that transformers loads. One tensor is in memory at a time, and all is
// computed in float32 and rounded once to the base's dtype.
//
// Source: peft.tuners.lora.layer.Linear.get_delta_weight and merge; W + scaling * B A, where
// scaling is lora_alpha / r, or lora_alpha / sqrt(r) with use_rslora, and alpha_pattern gives
// single linears another alpha.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace sftbench {

struct MergeProgress {
  uint64_t done_bytes = 0, total_bytes = 0;
};

struct MergeRequest {
  std::filesystem::path adapter;  // adapter_config.json and adapter_model.safetensors
  std::filesystem::path base;     // config.json and safetensors
  std::filesystem::path output;   // new, or empty
  int threads = 1;
  std::function<void(const MergeProgress&)> progress;  // may be empty
};

struct MergeSummary {
  int64_t adapted = 0;   // linears that got a delta
  int64_t replaced = 0;  // tensors that the adapter holds whole (modules_to_save)
  int64_t tensors = 0;   // of the model
  uint64_t size_bytes = 0;
  std::vector<std::string> copied;  // other files, from the base or, where it has them, the adapter
};

// The base model that the adapter names; empty: it names none. InputError.
std::string base_model_of(const std::filesystem::path& adapter);

// Nothing is at the output unless all of it is. InputError, all findings at once:
//   - what is no LoRA adapter
//   - kinds that are not done here: DoRA, aLoRA, biases, Conv1D, parameters of experts
//   - an adapter of a changed base (PiSSA, LoftQ)
//   - an adapter that is not as its sftbench_manifest.json says
//   - a base that is quantized or lacks what is adapted
//   - shapes and ranks that do not fit, and numbers that are not finite
//   - an output where something is
MergeSummary merge_adapter(const MergeRequest& request);

}  // namespace sftbench
