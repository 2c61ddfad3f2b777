// What the programs of --export take. Their keys are those of argument_table.h, which says what
// each means.
#pragma once

#include <string>
#include <vector>

namespace sftbench {

struct ExportProgram {
  const char* name;
  const char* file;      // of its arguments
  const char* keys;      // of argument_table.h that it takes
  const char* always;    // JSON: arguments of every job
  const char* nf4;       // JSON: arguments over 4-bit weights of bitsandbytes; empty: it has none
  const char* nf4_once;  // the same without double quantization, or empty
  const char* int8;      // the same of 8 bits
  const char* gptq;      // the same of a GPTQ model
  const char* command;   // behind `accelerate launch --config_file accelerate.yaml`
  bool fsdp2 = false;    // it shards with the second FSDP, and says so in its own file, too
};

// nullptr: none of this name.
const ExportProgram* find_export_program(const std::string& name);
const std::vector<ExportProgram>& all_export_programs();

}  // namespace sftbench
