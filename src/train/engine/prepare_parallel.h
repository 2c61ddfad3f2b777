// The model of a job with its parameters where the job's strategy wants them: whole on every rank,
// or as shards, of which no rank ever holds more than one unit whole.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sftbench/model/causal_lm.h"
#include "sftbench/model/expert_group.h"
#include "sftbench/parallel/parallel_parameters.h"
#include "sftbench/parallel/process_mesh.h"
#include "sftbench/plan/training_job.h"
#include "sftbench/tuning/tuning.h"

namespace sftbench {

// What a measurement on several ranks has to say of these choices; often nothing.
std::vector<std::string> notes_on_ranks(const TrainingJob& job);

// Whether what a job offloads leaves `device`: not on CPUs, which have no other memory than the
// host's.
bool offloads_from(torch::Device device);
// For tests and benchmarks of the copies: CPUs make them, too, from host to host.
void copy_on_cpus(bool wanted);

// Whether shards and their gradients are in the host's memory: where something is sharded, and
// offload leaves the device.
bool offloads_shards(const TrainingJob& job, torch::Device device);

struct PlacedModel {
  std::unique_ptr<ExpertGroup> expert_group;  // of the model; null where no experts are divided
  std::unique_ptr<CausalLm> model;
  std::vector<NamedParameter> trained;  // as the model has them; their memory may be elsewhere
  std::unique_ptr<ParallelParameters> parameters;
};

// Builds, loads or draws, resizes to the vocabulary and tunes. `mesh` outlives the result. `work`
// counts bytes of parameters, the total being this rank's part.
PlacedModel place_model(const TrainingJob& job, const ops::KernelChoice& kernels,
                        int64_t vocabulary_size, const Tuning& tuning, torch::Device device,
                        ProcessMesh& mesh, WorkCount& work);

}  // namespace sftbench
