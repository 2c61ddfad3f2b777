#include "engine/prepare_parallel.h"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "engine/prepare_precision.h"
#include "engine/unit_runner.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

struct Strategy {
  const char* name;
  MeshKind mesh;
  bool sharded;
  bool reshard_after_forward;
};

constexpr Strategy kStrategies[] = {
    {"DDP", MeshKind::kReplicated, false, false},
    {"FULL_SHARD", MeshKind::kSharded, true, true},
    {"HYBRID_SHARD", MeshKind::kHybrid, true, true},
    {"HYBRID_SHARD_ZERO2", MeshKind::kHybrid, true, false},
    {"NO_SHARD", MeshKind::kReplicated, false, false},
    {"SHARD_GRAD_OP", MeshKind::kSharded, true, false},
};

const Strategy& find_strategy(const std::string& name) {
  std::vector<std::string> names;
  for (const Strategy& strategy : kStrategies) {
    if (strategy.name == name) return strategy;
    names.emplace_back(strategy.name);
  }
  throw unsupported_choice("strategy", name, names);
}

void set_values(CausalLm& model, const TrainingJob& job, const WantedElements& wanted,
                WorkCount& work) {
  if (job.model.weights_directory.empty()) {
    initialise_randomly(model, job.seed, wanted, &work);
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

// --- whole on every rank -------------------------------------------------------------------------

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
  const std::vector<ParameterUnit> units = parameter_units(*placed.model);
  const Buckets buckets = job.parallel.strategy == "NO_SHARD" ? Buckets::kByUnit : Buckets::kBySize;
  placed.parameters =
      is_distributed(job) ? replicate_parameters(units, mesh, buckets) : keep_parameters(units);
  return placed;
}

// --- in shards -----------------------------------------------------------------------------------

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

// Mixed precision gathers what it multiplies: half the bytes, and what is kept stays as it is.
// Under fp8 that is bfloat16: a product's scale is that of the whole weight, which every rank then
// has.
std::optional<torch::Dtype> gather_dtype(const PrecisionPlan& plan) {
  if (plan.autocast == "bf16" || plan.autocast == "fp8") return torch::kBFloat16;
  if (plan.autocast == "fp16") return torch::kFloat16;
  if (plan.autocast == "no") return {};
  throw unsupported_choice("autocast", plan.autocast, {"bf16", "fp16", "fp8", "no"});
}

bool reduces_each(const std::string& gradient_sync) {
  if (gradient_sync == "each") return true;
  if (gradient_sync == "last") return false;
  throw unsupported_choice("gradient_sync", gradient_sync, {"each", "last"});
}

ShardingOptions sharding_options(const TrainingJob& job, const Strategy& strategy) {
  ShardingOptions options;
  options.reshard_after_forward = strategy.reshard_after_forward;
  options.reduce_each_micro_batch = reduces_each(job.parallel.gradient_sync);
  options.compute_dtype = gather_dtype(job.precision);
  if (!job.parallel.reduce_dtype.empty()) {
    options.reduce_dtype = reduce_dtype(job.parallel.reduce_dtype);
  }
  return options;
}

PlacedModel place_shards(const TrainingJob& job, const Strategy& strategy,
                         const ops::KernelChoice& kernels, int64_t vocabulary_size,
                         const Tuning& tuning, torch::Device device, ProcessMesh& mesh,
                         WorkCount& work) {
  PlacedModel placed;
  placed.model =
      make_causal_lm(job.model.hf_config, parameter_dtype(job.precision), torch::kMeta, kernels);
  if (!job.model.weights_directory.empty()) {
    check_weights(*placed.model, job.model.weights_directory);
  }
  work.total = parameter_bytes(*placed.model) / mesh.shape().shards;
  LaterValues values(*placed.model, job, device, work);
  // Virtual tokens start from embeddings, new rows from the old ones: they have to be there first.
  if (tuning.virtual_tokens() > 0 || vocabulary_size > placed.model->embedding().size(0)) {
    values.set_whole(parameter_units(*placed.model).front());
    resize_vocabulary(*placed.model, vocabulary_size);
  }
  placed.trained = tuning.apply(*placed.model);
  placed.parameters =
      shard_parameters(parameter_units(*placed.model), mesh, sharding_options(job, strategy),
                       [&](const ParameterUnit& unit, const std::vector<ElementRange>& kept) {
                         values.set(unit, kept);
                       });
  return placed;
}

}  // namespace

std::vector<std::string> notes_on_ranks(const TrainingJob& job) {
  std::vector<std::string> notes;
  const bool sharded = find_strategy(job.parallel.strategy).sharded;
  if (!sharded && reduces_each(job.parallel.gradient_sync)) {
    notes.push_back("gradient_sync each has no effect under " + job.parallel.strategy +
                    ": whole gradients are there anyway, and are reduced after the last "
                    "micro-batch");
  }
  const std::string& optimizer = job.optimizer.name;
  if (sharded && (optimizer == "adafactor" || optimizer.rfind("galore", 0) == 0)) {
    notes.push_back("optim " + optimizer + " under " + job.parallel.strategy +
                    ": each rank's part of a parameter is a vector, as under FSDP with "
                    "use_orig_params, so that nothing of it is factored or projected");
  }
  if (sharded && optimizer == "grokadamw") {
    notes.push_back("optim grokadamw under " + job.parallel.strategy +
                    ": its momentum decays with a parameter's number, and each rank counts those "
                    "that it has a part of");
  }
  return notes;
}

MeshKind mesh_kind(const std::string& strategy) {
  return find_strategy(strategy).mesh;
}

PlacedModel place_model(const TrainingJob& job, const ops::KernelChoice& kernels,
                        int64_t vocabulary_size, const Tuning& tuning, torch::Device device,
                        ProcessMesh& mesh, WorkCount& work) {
  const Strategy& strategy = find_strategy(job.parallel.strategy);
  if (!is_distributed(job) || !strategy.sharded) {
    return place_whole(job, kernels, vocabulary_size, tuning, device, mesh, work);
  }
  return place_shards(job, strategy, kernels, vocabulary_size, tuning, device, mesh, work);
}

}  // namespace sftbench
