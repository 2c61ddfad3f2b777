// --export PROGRAM: a job as the files that train it with another program, under the names of
// argument_table.h.
#pragma once

#include <string>
#include <vector>

#include "sftbench/plan/training_job.h"

namespace sftbench {

struct ExportedFile {
  std::string name;  // "arguments.json"
  std::string text;
};

struct ExportedJob {
  std::vector<ExportedFile> files;
  std::string command;             // that trains, run where the files are
  std::vector<std::string> notes;  // what differs from the job, one sentence each
};

// fms-hf-tuning, trl, axolotl, llamafactory.
std::vector<std::string> export_programs();

// `model`: what the program loads, a folder or a hub id. `stack`: that was predicted, which says
// how weights are quantized. InputError: no such program, or what decides time or memory has no
// name there.
ExportedJob exported_job(const std::string& program, const TrainingJob& job,
                         const std::string& model, const std::string& stack);

}  // namespace sftbench
