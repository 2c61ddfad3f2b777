// --arguments FILE, any number of times: training arguments under the names of other programs, as
// JSON or YAML: those of argument_table.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/space/space.h"

namespace sftbench {

inline constexpr const char* kTrlProgram = "trl";

struct ArgumentFile {
  std::vector<GivenValue> values;  // properties
  std::string model;               // model_name_or_path; empty: not said
  std::string model_place;         // where that stands: "arguments.json:1: model_id"
  std::string tuning;              // "full", "lora", "pt", "qlora", "lora-8bit"; empty: not said
  bool activated = false;          // peft_method: alora, which is lora with an invocation
  std::string padding;             // empty: not said
  std::optional<int64_t> batch_of_device;  // entries of a micro-batch and rank
  std::string batch_place;                 // where that stands
  std::optional<int64_t> processes;
  std::string processes_place;              // where that stands
  std::optional<int64_t> data_shards;       // parallelism_config_dp_shard_size
  std::optional<int64_t> train_batch_size;  // DeepSpeed's: of all ranks and micro-batches of a step
  std::string train_batch_place;            // where that stands
  // `program`, where nothing says FSDP or DeepSpeed: it trains several ranks under DDP.
  std::string whole_by;
  std::string program;  // trl, LLaMA-Factory or axolotl, by keys that no other has; empty: another
  std::string stack;    // of config/stacks.yaml, where a file asks for DeepSpeed or unsloth
  bool spares_logits =
      false;  // it asks for a loss of Liger or Cut Cross-Entropy that holds no logits
  bool of_llmforge = false;  // keys that no other program has
  bool on_cpus = false;
  std::string dtype_of_model;  // where torch_dtype auto stands
  struct SpecialToken {
    std::string place, name, token;  // where it stands, "eos_token", "</s>"
  };
  std::vector<SpecialToken> special_tokens;  // that the tokenizer has to have
  bool decodes_mxfp4 = false;                // quantization_method mxfp4, and dequantize
  // Files that a run leaves behind or goes on from, for `run`.
  // resume_from: a folder, "true" or "false", as --resume-from-checkpoint.
  std::string output_directory, model_directory, save_strategy, resume_from, log_strategy;
  std::optional<int64_t> save_steps, save_total_limit, log_steps;
  std::optional<double> save_steps_ratio, log_steps_ratio;  // shares of all steps instead
  bool best_model = false;
  std::vector<std::string> trackers;  // KIND=TARGET, of report_to
  std::vector<std::string> notes;     // what it says that has no effect here
};

// Whether it names a folder that is written or read.
bool saves_files(const ArgumentFile& file);

// What options say in a file's place, so that the file may say anything of it.
struct GivenElsewhere {
  bool model = false;
  bool data = false;
  bool length = false;
  bool predicts = false;  // no weights are read, so that their revision does not matter
};

// What a later file of `paths` says comes before what an earlier one says of the same thing;
// `notes` tell it. `deepspeed_path`: --deepspeed, a ds_config.json, which says what the key
// deepspeed of a file would; empty: none. InputError with all that is wrong. A key that has no
// equal here is named, with what works instead where something does. So are values of another type,
// and keys of one file, or of it and DeepSpeed's, that disagree.
ArgumentFile read_argument_files(const std::vector<std::string>& paths,
                                 const std::string& deepspeed_path = {}, GivenElsewhere given = {});

}  // namespace sftbench
