// Adapters that peft wrote (tests/reference/adapters.py), and jobs that train them.
#pragma once

#include <string>

#include "engine/restore_state.h"
#include "engine/training_fixture.h"
#include "engine/training_run.h"
#include "sftbench/tuning/tuning.h"

namespace sftbench {

inline std::string adapter_folder(const std::string& name) {
  return std::string(SFTBENCH_TEST_DATA) + "/adapters/" + name;
}

inline bool is_prompt(const std::string& name) {
  return name.find("prompt") != std::string::npos;
}

inline TrainingJob adapter_job(const std::string& name) {
  const Json config = read_json_file(adapter_folder(name) + "/final/adapter_config.json");
  const Json golden = read_json_file(adapter_folder(name) + "/golden.json");
  TrainingJob job = job_of(golden);
  // Padding changes no number (GoldenTraining shows it), and equal shapes need fewer compiled
  // GEMMs.
  job.data.padding = Padding::kMaxLength;
  if (is_prompt(name)) {
    job.tuning = TuningMethod::kPrompt;
    job.prompt = {config["num_virtual_tokens"], config["prompt_tuning_init"],
                  config["prompt_tuning_init_text"]};
  } else {
    job.tuning = TuningMethod::kLora;
    job.lora = {config["r"],
                config["lora_alpha"],
                config["lora_dropout"],
                config["target_modules"],
                golden.value("invocation", std::string()),
                config["use_rslora"],
                config["use_dora"]};
    if (config["modules_to_save"].is_array()) job.lora.modules_to_save = config["modules_to_save"];
    // Names no linear of Bloom: peft says nothing, and who resolves a job leaves it out.
    std::erase(job.lora.target_modules, "dense_4h_to_4h");
  }
  return job;
}

inline TrainedState state_of(TrainingRun& run, RankGroup& group, Json peft_config) {
  return {*run.model, *run.parameters, *run.optimizer,        *run.loss_scaler,
          *run.mesh,  group,           std::move(peft_config)};
}

// In place of the adapters that the run began with.
inline void load_adapter(const std::string& folder, TrainingRun& run, RankGroup& group) {
  const SavedLayout layout = {.format = "FULL", .strategy = {}, .ranks = 1};
  restore_parameters(folder, layout, state_of(run, group, Json::object()));
}

}  // namespace sftbench
