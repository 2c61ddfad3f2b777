// A simulated job of a small model, and what a child needs besides it.
#pragma once

#include <filesystem>
#include <string>

#include "sftbench/launch/child_measurement.h"
#include "temporary_file.h"

namespace sftbench {

inline TrainingJob small_job(int64_t steps) {
  TrainingJob job;
  job.experiment = "finetune_full_benchmark-v1.0.0";
  job.experiment_id = "SFTTrainer.finetune_full_benchmark-v1.0.0";
  job.entity_id = "model_name.m-batch_size.2";
  job.backend = kBackendSimulate;
  job.inputs = {{"backend", kBackendSimulate},
                {"batch_size", 2},
                {"model_max_length", 64},
                {"model_name", "m"},
                {"number_gpus", 0}};
  job.model.hf_config = {{"model_type", "llama"},    {"vocab_size", 1000},
                         {"hidden_size", 64},        {"intermediate_size", 128},
                         {"num_hidden_layers", 2},   {"num_attention_heads", 4},
                         {"num_key_value_heads", 4}, {"tie_word_embeddings", true}};
  job.data.dataset_id = "news-tokens-16384plus-entries-4096";
  job.data.model_max_length = 64;
  job.batches.per_device_batch_size = 2;
  job.batches.max_steps = steps;
  return job;
}

// The same for an engine that is loaded.
inline TrainingJob small_trained_job(int64_t steps) {
  TrainingJob job = small_job(steps);
  job.backend = kBackendLibtorch;
  job.inputs.erase("backend");
  return job;
}

inline ChildSpec simulated_spec(int64_t steps, std::vector<std::string> simulate = {}) {
  ChildSpec spec;
  spec.job = small_job(steps);
  spec.command = "sftbench run";
  spec.simulate = std::move(simulate);
  spec.log = temporary_file("log");
  spec.final_log = "results/x.log";
  spec.grace_s = 0.2;
  spec.executable = SFTBENCH_EXECUTABLE;
  return spec;
}

// Trained by tests/launch/fake_engine.h in one of its modes.
inline ChildSpec fake_engine_spec(const std::string& mode, const std::filesystem::path& file) {
  ChildSpec spec = simulated_spec(3);
  spec.job = small_trained_job(3);
  spec.environment = {{"SFTBENCH_ENGINE", SFTBENCH_FAKE_ENGINE},
                      {"FAKE_ENGINE", mode},
                      {"FAKE_ENGINE_FILE", file.string()},
                      {"CUDA_VISIBLE_DEVICES", ""}};
  return spec;
}

}  // namespace sftbench
