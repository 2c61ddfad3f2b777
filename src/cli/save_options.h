// What `run` keeps of a training run and goes on from, under the names that fms-hf-tuning and
// transformers give these things. They concern files, not what is measured.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>
#include <string>

#include "sftbench/plan/training_job.h"
#include "sftbench/translate/argument_file.h"

namespace sftbench {

struct SaveOptions {
  std::string model_directory = {};
  std::string checkpoint_directory = {};
  std::string strategy = {};  // empty: not given
  std::optional<int64_t> steps = {}, total_limit = {};
  std::optional<double> steps_ratio = {};  // of a file: a share of all steps
  std::string resume_from = {};
  bool best_model = false;
  std::string output_directory = {};  // fms-hf-tuning's: checkpoints and training_logs.jsonl
  std::string log_strategy = {};      // empty: not given
  std::optional<int64_t> log_steps = {};
  std::optional<double> log_steps_ratio = {};  // of a file, too
};

void add_save_options(CLI::App& command, SaveOptions& options);

// With what an arguments file says where no option does.
SaveOptions with_file(SaveOptions save, const ArgumentFile& file);

// Puts what was given over the job's own plan. InputError with all that is wrong with the plan that
// results, before anything is trained: choices that do not go together, folders that cannot be
// written, hold something else already or lie in each other's way, a checkpoint that is not there.
// An output folder that holds checkpoints makes the run go on from the newest, and a line says so.
// `results`: the folder of -o, which may be the model's or hold it.
void apply_save_options(const SaveOptions& options, const std::string& results, TrainingJob& job);

// What an interruption leaves: checkpoints that the training has come to, and its log, but no
// result.
std::string interrupted_text(const SavePlan& plan);

}  // namespace sftbench
