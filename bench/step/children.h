// What the processes that step_bench starts do. Each prints one JSON line on stdout.
#pragma once

#include <cstdint>
#include <string>

#include "sftbench/plan/training_job.h"

namespace sftbench::bench {

struct Work {
  std::string dtype = "bfloat16";
  int64_t length = 512, steps = 4;
  bool checkpointing = false;
  std::string config;  // path of a config.json; empty: SmolLM2-135M's
};

// A model's shapes with random weights on as many synthetic texts as steps, each at least
// `length` tokens. Writes the texts to `dataset_path`. tuning: "full"; "lora" on q_proj and v_proj
// (r 4, alpha 16, dropout 0.05); "pt" with 8 virtual tokens; "no_loss", "no_rms_norm", "no_rope",
// "no_attention" and "no_kernels": "full" without that fused kernel, or without all four; "kept",
// "offload_optimizer", "offload_activations", "sharded", "offload_params": "full" with offload of
// one thing from host to host, and what that is compared with.
TrainingJob random_job(const std::string& tuning, const Work& work,
                       const std::string& dataset_path);

// Trains with the engine, as `sftbench run` does. {step_seconds, losses, first_step_process_age_s,
// peak_rss_bytes}
std::string run_engine(const TrainingJob& job);

// The same work with stock operators, allocator and optimizer (plain_model.h). Same output.
std::string run_plain(const Work& work);

// One forward and backward pass with and without checkpointing, each alone:
// {kept, checkpointed}: bytes at the peak beyond parameters and gradients.
std::string measure_activations(const Work& work, const std::string& dataset_path);

}  // namespace sftbench::bench
