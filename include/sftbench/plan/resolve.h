// Entity + settings -> TrainingJob. Everything that can be known before training is decided here,
// once: files are looked up, ranks and micro-batches counted, and what this version cannot do is
// refused by name instead of being replaced by something else.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/catalog/catalog.h"
#include "sftbench/huggingface/fetch.h"
#include "sftbench/plan/actuator.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/space/entity.h"

namespace sftbench {

struct ResolveOptions {
  std::string weights = "auto";  // auto: files; random: drawn from the seed
  Padding padding = Padding::kLongest;
  double stop_when_known = 0;      // percent; 0: no such stop
  bool worst_batch_first = false;  // no input where all batches are as large
  int64_t cpu_ranks = 1;           // processes when number_gpus is 0
  int64_t threads = 0;             // per rank; 0: all cores this process may use
  GradientSync gradient_sync = GradientSync::kLast;
  std::string reduce_dtype;              // the same
  double communication_timeout_s = 600;  // the same
  double sample_period_s = 1.0;
  // kBackendSimulate refuses nothing that this version cannot train, and needs neither weights nor
  // a generated dataset.
  std::string backend = kBackendLibtorch;
  bool own_model =
      false;  // --model: one that the settings' model_map names, whatever the catalog says
  bool predicts =
      false;  // the shapes of a model are enough: its family may be one that is not trained
  bool decodes_mxfp4 = false;  // asked for by name; it is done in any case
  std::string
      model_path;  // the folder that it is in; empty: it is on the hub, and has its id as name
  std::optional<std::string> hf_home;  // of the settings: where datasets of the hub are looked for
};

struct Resolution {
  TrainingJob job;
  // job.data.path is in the user's data directory: make it first unless it is there
  // (ensure_named_dataset of data/dataset_catalog.h).
  bool generate_dataset = false;
  std::vector<std::string> notes;  // settings that have no effect in this entity
};

// REQUIRES: validate(request.inputs) found no violation.
// RunError: kWeights (with the command that fetches them), kData (with the command that makes it),
// kUnsupported (naming the value and what would work).
Resolution resolve(const MeasurementRequest& request, const ActuatorSettings& settings,
                   const ResolveOptions& options, const Catalog& catalog);

// What of the hub resolve() would look for and not find on this machine: the model, where its
// weights are read from files, a tokenizer of its own, and datasets. REQUIRES: as resolve().
std::vector<FetchRequest> absent_from_hub(const MeasurementRequest& request,
                                          const ActuatorSettings& settings,
                                          const ResolveOptions& options, const Catalog& catalog);

// The inputs that a result records: request.inputs, and what the command line adds to them when it
// differs from the default: cpu_ranks, weights, padding, worst_batch_first,
// stop_when_known, gradient_sync, reduce_dtype, backend. Digests of what an own model's folder
// holds (plan/own_model.h). Data of one's own are dataset_id, the file's name, and training_data, a
// digest of its content, in place of training_data_path; validation_data likewise. A dataset of the
// hub has its id, and the part that is meant, as dataset_id. Sorted by name.
Json effective_inputs(const MeasurementRequest& request, const ResolveOptions& options);

// Name of a measurement's files: a digest of experiment and effective inputs in canonical order.
// Where the content of an own model is among them, its name and that of data of one's own count for
// nothing.
std::string measurement_key(const std::string& experiment, const Json& inputs);

}  // namespace sftbench
