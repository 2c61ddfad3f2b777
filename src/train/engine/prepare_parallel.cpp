#include "engine/prepare_parallel.h"

#include <map>
#include <set>
#include <string>
#include <utility>

#include "engine/divided_experts.h"
#include "engine/prepare_precision.h"
#include "engine/unit_runner.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

bool copies_on_cpus = false;

void set_values(CausalLm& model, const TrainingJob& job, const WantedElements& wanted,
                WorkCount& work) {
  if (job.model.weights_directory.empty()) {
    initialize_randomly(model, job.seed, wanted, &work);
  } else {
    load_weights(model, job.model.weights_directory, wanted, &work);
  }
}

int64_t parameter_bytes(CausalLm& model) {
  int64_t bytes = 0;
  for (const NamedParameter& parameter : model.parameters()) {
    bytes += parameter.tensor->numel() * static_cast<int64_t>(parameter.tensor->element_size());
  }
  return bytes;
}

// Of one unit, whose weights have their values now; of all without one.
void begin_adapters(CausalLm& model, const ParameterUnit* unit = nullptr) {
  for (const NamedLinearGroup& linears : model.linear_groups()) {
    const std::string& name = linears.linears.front().name;
    if (unit == nullptr || name.find(unit->name + ".") != std::string::npos)
      linears.group->begin_adapter();
  }
}

// --- whole on every rank -------------------------------------------------------------------------

std::unique_ptr<ParallelParameters> replicate(const TrainingJob& job,
                                              const std::vector<ParameterUnit>& units,
                                              ProcessMesh& mesh) {
  const StrategyRow& strategy = row_of(job.parallel.strategy);
  if (strategy.optimizer_alone) return shard_optimizer(units, mesh);
  return replicate_parameters(units, mesh,
                              strategy.reduces_by_unit ? Buckets::kByUnit : Buckets::kBySize);
}

PlacedModel place_whole(const TrainingJob& job, const ops::KernelChoice& kernels,
                        int64_t vocabulary_size, const Tuning& tuning, torch::Device device,
                        ProcessMesh& mesh, WorkCount& work) {
  PlacedModel placed;
  placed.model =
      make_causal_lm(job.model.hf_config, parameter_dtype(job.precision), device, kernels);
  work.total = parameter_bytes(*placed.model);
  set_values(*placed.model, job, every_element, work);
  resize_vocabulary(*placed.model, vocabulary_size);
  placed.trained = tuning.apply(*placed.model);
  begin_adapters(*placed.model);
  const std::vector<ParameterUnit> units = parameter_units(*placed.model);
  placed.parameters = is_distributed(job) ? replicate(job, units, mesh) : keep_parameters(units);
  return placed;
}

// --- in parts ------------------------------------------------------------------------------------

// Parameters that have shape and dtype, and no memory yet.
class LaterValues {
 public:
  LaterValues(CausalLm& model, const TrainingJob& job, torch::Device device, WorkCount& work)
      : model_(model), job_(job), work_(work) {
    for (const NamedParameter& parameter : model.parameters()) {
      *parameter.tensor =
          placeholder(parameter.tensor->sizes(), parameter.tensor->options().device(device));
      without_.insert(parameter.name);
    }
  }

  // Of the parameters of a unit that have none: of unit.tensors[i] elements wanted[i]. On the host,
  // memory that nothing is written to is not taken.
  void set(const ParameterUnit& unit, const std::vector<ElementRange>& wanted) {
    const torch::NoGradGuard no_grad;
    std::map<std::string, ElementRange> ranges;
    for (size_t i = 0; i < unit.tensors.size(); ++i) {
      const UnitTensor& named = unit.tensors[i];
      if (without_.erase(named.name) == 0) continue;
      torch::Tensor& tensor = *named.tensor;
      tensor = torch::empty(tensor.sizes(), tensor.options().requires_grad(false))
                   .set_requires_grad(tensor.requires_grad());
      ranges[named.name] = wanted[i];
    }
    if (ranges.empty()) return;
    const WantedElements wanted_of = [&](const std::string& name) {
      const auto range = ranges.find(name);
      return range == ranges.end() ? ElementRange{} : range->second;
    };
    set_values(model_, job_, wanted_of, work_);
  }

  void set_whole(const ParameterUnit& unit) {
    set(unit, std::vector<ElementRange>(unit.tensors.size(), kEveryElement));
  }

 private:
  CausalLm& model_;
  const TrainingJob& job_;
  WorkCount& work_;
  std::set<std::string> without_;
};

torch::Dtype reduce_dtype(const std::string& name) {
  if (name == "float32") return torch::kFloat32;
  if (name == "bfloat16") return torch::kBFloat16;
  throw unsupported_choice("reduce_dtype", name, {"float32", "bfloat16"});
}

bool reduces_each(const TrainingJob& job) {
  return job.parallel.gradient_sync == GradientSync::kEach;
}

ShardingOptions sharding_options(const CausalLm& model, const TrainingJob& job,
                                 torch::Device device) {
  ShardingOptions options;
  options.offload = offloads_shards(job, device);
  options.reshard_after_forward = row_of(job.parallel.strategy).reshard_after_forward;
  options.reduce_each_micro_batch = reduces_each(job);
  // Mixed precision gathers what it multiplies: half the bytes, and what is kept stays as it is.
  options.compute_dtype = gathered_dtype(model, job.precision, device);
  if (!job.parallel.reduce_dtype.empty()) {
    options.reduce_dtype = reduce_dtype(job.parallel.reduce_dtype);
  }
  return options;
}

bool divides_experts(const TrainingJob& job) {
  return is_distributed(job) && job.parallel.expert_ranks > 1;
}

// Bytes of this rank's part.
int64_t own_bytes(CausalLm& model, const MeshShape& mesh, const StrategyRow& strategy) {
  const int64_t shards = strategy.shards() ? mesh.shards : 1;
  int64_t bytes = 0;
  for (const NamedParameter& parameter : model.parameters()) {
    const auto whole = static_cast<int64_t>(parameter.tensor->nbytes());
    bytes += whole / (parameter.experts > 0 && mesh.experts > 1 ? mesh.experts : shards);
  }
  return bytes;
}

// Values come when it is known which of them this rank keeps.
PlacedModel place_parts(const TrainingJob& job, const ops::KernelChoice& kernels,
                        int64_t vocabulary_size, const Tuning& tuning, torch::Device device,
                        ProcessMesh& mesh, WorkCount& work) {
  PlacedModel placed;
  placed.model =
      make_causal_lm(job.model.hf_config, parameter_dtype(job.precision), torch::kMeta, kernels);
  if (!job.model.weights_directory.empty()) {
    check_weights(*placed.model, job.model.weights_directory);
  }
  work.total = own_bytes(*placed.model, mesh.shape(), row_of(job.parallel.strategy));
  LaterValues values(*placed.model, job, device, work);
  // Virtual tokens start from embeddings, new rows from the old ones: they have to be there first.
  if (tuning.begins_at_embedding(*placed.model) ||
      vocabulary_size > placed.model->embedding().size(0)) {
    values.set_whole(parameter_units(*placed.model).front());
    resize_vocabulary(*placed.model, vocabulary_size);
  }
  placed.trained = tuning.apply(*placed.model);
  std::vector<ParameterUnit> units = parameter_units(*placed.model);
  std::vector<ExpertTensor> experts;
  if (divides_experts(job)) experts = take_experts(*placed.model, units, mesh);
  if (row_of(job.parallel.strategy).shards()) {
    placed.parameters =
        shard_parameters(units, mesh, sharding_options(*placed.model, job, device),
                         [&](const ParameterUnit& unit, const std::vector<ElementRange>& kept) {
                           // Magnitudes start from whole rows.
                           if (job.lora.use_dora && unit.name != units.front().name) {
                             values.set_whole(unit);
                             begin_adapters(*placed.model, &unit);
                           } else {
                             values.set(unit, kept);
                           }
                         });
  } else {
    for (const ParameterUnit& unit : units) values.set_whole(unit);
    begin_adapters(*placed.model);
    placed.parameters = replicate(job, units, mesh);
  }
  if (experts.empty()) return placed;

  const FillUnit fill = [&](const ParameterUnit& unit, const std::vector<ElementRange>& kept) {
    values.set(unit, kept);
  };
  fill_experts(experts, mesh, fill);
  auto group = std::make_unique<RankExperts>(mesh, device);
  placed.model->divide_experts(*group);
  placed.parameters =
      divide_experts(std::move(placed.parameters), std::move(experts), mesh,
                     {.reduce_dtype = sharding_options(*placed.model, job, device).reduce_dtype,
                      .take_wait_seconds = [g = group.get()] { return g->take_wait_seconds(); }});
  placed.expert_group = std::move(group);
  return placed;
}

// Experts are never vectors, but an optimizer sees those of its rank only, behind all other
// tensors.
std::vector<std::string> notes_on_divided_experts(const TrainingJob& job) {
  const int64_t expert_ranks = job.parallel.expert_ranks;
  if (expert_ranks == 1) return {};
  const OptimizerRow& optimizer = row_of(job.optimizer.kind);
  const std::string which =
      std::string("optim ") + optimizer.name + " with fast_moe " + std::to_string(expert_ranks);
  if (optimizer.on_shards == ShardEffect::kNumbersOwnParts) {
    return {which +
            ": its momentum decays with a parameter's number, and each rank counts its experts "
            "behind all other parameters"};
  }
  if (optimizer.state.factored) {
    return {which + ": a tensor of several experts is clipped by the size of a rank's part of it"};
  }
  return {};
}

std::vector<std::string> notes_on_whole_gradients(const TrainingJob& job) {
  const StrategyRow& strategy = row_of(job.parallel.strategy);
  if (strategy.shards() || !reduces_each(job)) return {};
  return {std::string("gradient_sync each has no effect under ") + strategy.name +
          ": whole gradients are there anyway, and are reduced after the last micro-batch"};
}

std::vector<std::string> notes_on_parts(const TrainingJob& job) {
  const StrategyRow& strategy = row_of(job.parallel.strategy);
  const OptimizerRow& optimizer = row_of(job.optimizer.kind);
  if (!strategy.updates_parts()) return {};
  const std::string which = std::string("optim ") + optimizer.name + " under " + strategy.name;
  switch (optimizer.on_shards) {
    case ShardEffect::kNone:
      return {};
    case ShardEffect::kNotFactored:
    case ShardEffect::kNotProjected:
      return {which +
              ": each rank's part of a parameter is a vector, as under FSDP with "
              "use_orig_params, so that nothing of it is factored or projected"};
    case ShardEffect::kNumbersOwnParts:
      return {which +
              ": its momentum decays with a parameter's number, and each rank counts those that it "
              "has a part of"};
  }
  return {};
}

}  // namespace

std::vector<std::string> notes_on_ranks(const TrainingJob& job) {
  std::vector<std::string> notes = notes_on_whole_gradients(job);
  for (std::string& note : notes_on_parts(job)) notes.push_back(std::move(note));
  for (std::string& note : notes_on_divided_experts(job)) notes.push_back(std::move(note));
  return notes;
}

bool offloads_from(torch::Device device) {
  return device.is_cuda() || copies_on_cpus;
}

void copy_on_cpus(bool wanted) {
  copies_on_cpus = wanted;
}

bool offloads_shards(const TrainingJob& job, torch::Device device) {
  return job.parallel.offload && offloads_from(device) && is_distributed(job) &&
         row_of(job.parallel.strategy).shards();
}

PlacedModel place_model(const TrainingJob& job, const ops::KernelChoice& kernels,
                        int64_t vocabulary_size, const Tuning& tuning, torch::Device device,
                        ProcessMesh& mesh, WorkCount& work) {
  const bool shards = is_distributed(job) && row_of(job.parallel.strategy).shards();
  return shards || divides_experts(job)
             ? place_parts(job, kernels, vocabulary_size, tuning, device, mesh, work)
             : place_whole(job, kernels, vocabulary_size, tuning, device, mesh, work);
}

}  // namespace sftbench
