// The options that all commands share that read a space: which file, what the command line changes
// in it, which entity of it; and the steps from them to a Space and to one chosen measurement.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/plan/actuator.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/space/space.h"
#include "sftbench/translate/argument_file.h"
#include "sftbench/translate/argument_options.h"

namespace sftbench {

struct QuantizedMethod;

struct Selection {
  std::string space_path;
  std::string model;                         // --model: empty when not given
  std::vector<GivenOption> arguments;        // --learning-rate and the like
  std::vector<std::string> arguments_paths;  // --arguments
  std::string deepspeed_path;                // --deepspeed
  std::vector<std::string> assignments;      // --set property=value
  std::string experiment;                    // --experiment or --method
  std::string experiment_option = "--experiment";
  std::string entity;                    // --entity: index (0-based) or id
  std::string config_path;               // --config
  bool fetch = false;                    // --fetch
  bool predicts = false;                 // nothing is trained
  bool measures = false;                 // only then is anything fetched
  bool shows_progress = false;           // of what is fetched
  std::string ado_ids;                   // --ado-ids: empty when not given
  std::string weights;                   // --weights: empty when not given
  std::string padding;                   // --padding: empty when not given
  bool worst_batch_first = false;        // --largest-batch-first
  double stop_when_known = 0;            // --stop-at-precision, percent
  int64_t ranks = 1;                     // --ranks
  int64_t threads = 0;                   // --threads
  std::string gradient_sync;             // --gradient-sync: empty when not given
  std::string reduce_dtype;              // --reduce-dtype: empty when not given
  double communication_timeout_s = 600;  // --communication-timeout
};

// SPACE (optional; a space can be given by --experiment and --set alone, or by --model), --set,
// --experiment, --entity, --model, --arguments, --deepspeed, training arguments, --config,
// --ado-ids, --weights,
// --padding, --largest-batch-first, --stop-at-precision, --ranks, --threads, --gradient-sync,
// --reduce-dtype, --communication-timeout.
void add_selection_options(CLI::App& command, Selection& selection);

struct LoadedSpace {
  Space space;
  ActuatorSettings settings;
  std::vector<Diagnostic> warnings;            // of the space and of the settings; for stderr
  bool own_model = false;                      // --model
  std::string model_path;                      // the folder that it names; empty: a hub id
  const QuantizedMethod* quantized = nullptr;  // --method, where it is one of them
  ArgumentFile file;                           // --arguments and --deepspeed
};

// `sftbench run` of the selection, as one types it.
std::string run_command(const Selection& selection);

// Reads the actuator's settings and the space. InputError with everything that is wrong, for a
// mixture of data that is none, and for an unknown value of --ado-ids.
LoadedSpace load_space(const Selection& given);

// finetune_lora_benchmark-v1.0.0 for "lora", "finetune_lora", or another beginning of it alone.
// `given` itself where none begins so, unless `option` is of a method. InputError naming `option`
// where several do.
std::string full_experiment_name(const Catalog& catalog, const std::string& option,
                                 const std::string& given);

// The index that --entity names; nothing when it is not given. InputError when there is no such
// entity.
std::optional<int64_t> chosen_entity(const Space& space, const Selection& selection);

// The one measurement that `run` measures. InputError when several are left, naming the first ones
// and how to choose (--entity N|ID, --experiment ID).
MeasurementRequest choose_request(const Space& space, const Selection& selection);

// Command line over --arguments over space file over defaults. InputError for an unknown value of
// --weights, --padding, --gradient-sync or --reduce-dtype.
ResolveOptions resolve_options(const LoadedSpace& loaded, const Selection& selection);

}  // namespace sftbench
