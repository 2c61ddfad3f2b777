#include "sftbench/plan/probe_jobs.h"

namespace sftbench {
namespace {

struct Rows {
  int64_t length, batch;
  bool recomputed;
};

constexpr Rows kRows[] = {
    {32, 1, false}, {kProbeLength, 1, true}, {kProbeLength, 1, false}, {kProbeLength, 2, true}};

Json small_llama() {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"hidden_size", 512},
          {"intermediate_size", 1408},
          {"num_hidden_layers", 8},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"vocab_size", kProbeVocabulary},
          {"max_position_embeddings", 2 * kProbeLength},
          {"rms_norm_eps", 1e-5},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", true}};
}

TrainingJob probe_job(TuningMethod tuning, const Rows& rows, ParameterDtype dtype,
                      const std::string& data) {
  TrainingJob job;
  job.tuning = tuning;
  job.model.name = "probe";
  job.model.hf_config = small_llama();
  job.data.path = data;
  job.data.pretokenized = true;
  job.data.padding = Padding::kMaxLength;
  job.data.model_max_length = rows.length;
  job.batches.per_device_batch_size = rows.batch;
  job.batches.max_steps = kProbeSteps;
  job.precision.torch_dtype = dtype;
  job.activations.gradient_checkpointing = rows.recomputed;
  job.lora.target_modules = {"q_proj", "v_proj"};
  return job;
}

}  // namespace

std::vector<TrainingJob> probe_jobs(ParameterDtype dtype, const std::string& data) {
  std::vector<TrainingJob> jobs;
  for (const TuningMethod tuning : {TuningMethod::kFull, TuningMethod::kLora}) {
    for (const Rows& rows : kRows) jobs.push_back(probe_job(tuning, rows, dtype, data));
  }
  return jobs;
}

}  // namespace sftbench
