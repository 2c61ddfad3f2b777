// Jobs for the simulated engine, and their measurements, taken in this process.
#pragma once

#include <string>
#include <vector>

#include "simulate/engine.h"

namespace sftbench {

inline TrainingJob simulated_job() {
  TrainingJob job;
  job.experiment = "finetune_full_benchmark-v1.0.0";
  job.inputs = {{"batch_size", 2}, {"model_name", "m"}};
  // SmolLM2-135M: 134 515 008 parameters (its model card's safetensors).
  job.model.hf_config = {{"model_type", "llama"},    {"vocab_size", 49152},
                         {"hidden_size", 576},       {"intermediate_size", 1536},
                         {"num_hidden_layers", 30},  {"num_attention_heads", 9},
                         {"num_key_value_heads", 3}, {"tie_word_embeddings", true}};
  job.data.dataset_id = "news-tokens-16384plus-entries-4096";
  job.data.model_max_length = 512;
  job.batches.per_device_batch_size = 2;
  job.batches.max_steps = 4;
  return job;
}

// What a run told, without measure/ around it.
struct Told : TrainObserver {
  TrainBegin begin;
  std::vector<StepEvent> steps;
  TrainEnd end;
  void on_train_begin(const TrainBegin& event) override { begin = event; }
  void on_step_end(const StepEvent& event, TrainControl&) override { steps.push_back(event); }
  void on_train_end(const TrainEnd& event) override { end = event; }
};

inline Told told_by(const TrainingJob& job, const std::vector<std::string>& simulate = {},
                    int sample = 1, int attempt = 1) {
  Told told;
  SimulatedEngine(simulate, sample, attempt).train_job(job, *make_single_rank(), {&told}, [] {
    return false;
  });
  return told;
}

}  // namespace sftbench
