#include "sftbench/advise/memory_switches.h"

#include <algorithm>
#include <optional>

#include "advise/option_space.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

constexpr double kLeastShare = 0.01;  // of what is needed: less is not worth a line
constexpr int64_t kShortest = 256;
const char* const kExperiment = "experiment";
const char *const kStack = "stack", *const kFastKernels = "fast_kernels";

struct Candidate {
  Json changes;
  bool trains_alike = true;
};

// As many entries of a step on twice the GPUs, in shards.
Json on_twice_the_gpus(const TrainingJob& job) {
  const int64_t gpus = job.device.ranks, batch = job.batches.per_device_batch_size;
  const int64_t accumulation = job.batches.gradient_accumulation_steps;
  if (2 * gpus > kGpusOfANode * job.device.nodes) return {};
  Json changes = {{"number_gpus", 2 * gpus},
                  {"distributed_backend", "FSDP"},
                  {"fsdp_sharding_strategy", "FULL_SHARD"}};
  if (batch % 2 == 0) return changes;
  if (accumulation % 2 != 0) return {};
  changes["batch_size"] = 2 * data_ranks(job) * batch;
  changes["gradient_accumulation_steps"] = accumulation / 2;
  return changes;
}

// Kernels for the loss that hold fewer logits: Liger's where the program has it.
Json with_fused_loss(const Json& fast_kernels, const std::string& stack) {
  const std::string liger = stack_with(stack, kLigerLoss);
  Json changes = Json::object();
  if (liger != stack) changes[kStack] = liger;
  if (liger == stack || !fast_kernels.is_null())
    changes[kFastKernels] = Json::array({"True", "True", "True"});
  return changes;
}

std::vector<Candidate> candidates(const MeasurementRequest& request, const Prediction& now) {
  const TrainingJob& job = now.job;
  const std::string& stack = now.machine.stack.name;
  const bool own = stack == StackModel().name;
  std::vector<Candidate> all;
  const int64_t batch = job.batches.per_device_batch_size;
  const bool sharded = job.device.ranks > 1 && job.parallel.strategy == Strategy::kFullShard;
  if (!job.activations.gradient_checkpointing) all.push_back({{{"gradient_checkpointing", true}}});
  if (batch > 1) {
    all.push_back(
        {{{"batch_size", data_ranks(job)},
          {"gradient_accumulation_steps", batch * job.batches.gradient_accumulation_steps}}});
  }
  if (own && job.device.kind == "cuda" && data_ranks(job) % 2 == 0) {
    all.push_back({{{"context_parallel", 2 * job.parallel.context_ranks},
                    {"batch_size", data_ranks(job) / 2 * batch},
                    {"gradient_accumulation_steps", 2 * job.batches.gradient_accumulation_steps}}});
  }
  if (const std::string freed = stack_with(stack, kUpdatesInBackward);
      freed != stack && job.tuning == TuningMethod::kFull) {
    Json changes = {{kStack, freed}};
    const bool accumulates = job.batches.gradient_accumulation_steps > 1;
    if (accumulates) changes["gradient_accumulation_steps"] = 1;
    all.push_back({std::move(changes), !accumulates});
  }
  if (!job.kernels.flash_attention) all.push_back({{{"flash_attn", true}}});
  const bool has_liger = stack_with(stack, kLigerLoss) != stack;
  if (has_liger || !job.kernels.fused_loss)
    all.push_back({with_fused_loss(request.inputs.at(kFastKernels), stack)});
  if (job.device.ranks > 1 && !sharded) {
    all.push_back({{{"distributed_backend", "FSDP"}, {"fsdp_sharding_strategy", "FULL_SHARD"}}});
  }
  if (!job.optimizer.offload_state) all.push_back({{{"offload_optimizer", true}}});
  if (!job.activations.offload) all.push_back({{{"offload_activations", true}}});
  if (sharded && !job.parallel.offload) all.push_back({{{"offload_params", true}}});
  if (own && job.activations.mlp_tiles == 1) all.push_back({{{"mlp_tiles", kFewTiles}}});
  if (const Json changes = on_twice_the_gpus(job); !changes.is_null()) all.push_back({changes});
  if (job.precision.torch_dtype == ParameterDtype::kFloat32)
    all.push_back({{{"torch_dtype", "bfloat16"}}, false});
  if (job.tuning == TuningMethod::kFull) {
    all.push_back({{{"optim", "adamw_bnb_8bit"}}, false});
    all.push_back({{{kExperiment, "finetune_lora_benchmark-v1.0.0"}}, false});
  }
  if (job.tuning == TuningMethod::kLora) {
    all.push_back({{{kExperiment, "finetune_qlora_benchmark-v1.0.0"}}, false});
  }
  if (job.data.model_max_length >= 2 * kShortest)
    all.push_back({{{"model_max_length", job.data.model_max_length / 2}}, false});
  return all;
}

// Inputs of another experiment: its own defaults where the first one does not know the property.
Json inputs_of(const Experiment& experiment, const Json& inputs) {
  Json own = Json::object();
  for (const PropertySpec& spec : experiment.properties)
    own[spec.identifier] = inputs.value(spec.identifier, spec.default_value);
  for (const PropertySpec& spec : experiment.arguments) {
    if (inputs.contains(spec.identifier)) own[spec.identifier] = inputs.at(spec.identifier);
  }
  return own;
}

MeasurementRequest changed(const MeasurementRequest& request, const Json& changes) {
  MeasurementRequest other = request;
  for (const auto& [property, value] : changes.items()) {
    if (property == kStack) continue;
    if (property != kExperiment) {
      other.inputs[property] = value;
      continue;
    }
    const Experiment& experiment = *Catalog::shipped().experiment(value.get<std::string>());
    other.experiment = experiment.identifier;
    other.inputs = inputs_of(experiment, other.inputs);
  }
  return other;
}

int copies_to_host(const TrainingJob& job) {
  return job.optimizer.offload_state + job.parallel.offload + job.activations.offload;
}

// By the stack that `predict` takes for the options of these changes.
Prediction predicted(const MeasurementRequest& request, const Json& changes,
                     const std::string& stack, Oracle& oracle) {
  const MeasurementRequest other = changed(request, changes);
  const TuningMethod method = Catalog::shipped().experiment(other.experiment)->tuning;
  return oracle.predict(other, stack_beside(changes.value(kStack, stack), method));
}

// Nothing where the program cannot do it.
std::optional<MemorySwitch> tried(const MeasurementRequest& request, const Prediction& now,
                                  const Json& changes, bool trains_alike, Oracle& oracle) {
  try {
    MemorySwitch tried;
    tried.changes = changes;
    tried.trains_alike = trains_alike;
    tried.prediction = predicted(request, changes, now.at.stack, oracle);
    tried.saved_bytes = now.needed_bytes - tried.prediction.needed_bytes;
    if (now.machine.host_bytes_per_s > 0 ||
        copies_to_host(tried.prediction.job) == copies_to_host(now.job)) {
      tried.time_factor = now.positions_per_second() / tried.prediction.positions_per_second();
    }
    return tried;
  } catch (const RunError&) {
    return std::nullopt;
  } catch (const InputError&) {
    return std::nullopt;
  }
}

// What trains the same on the same GPUs comes first, then what takes more GPUs, then what trains
// otherwise.
int rank_of(const MemorySwitch& one) {
  if (!one.trains_alike) return 2;
  return one.changes.contains("number_gpus") ? 1 : 0;
}

Json joined(const std::vector<MemorySwitch>& switches) {
  Json changes = Json::object();
  for (const MemorySwitch& one : switches) changes.update(one.changes);
  return changes;
}

}  // namespace

std::string MemorySwitch::words() const {
  std::string words;
  for (const auto& [property, value] : changes.items()) {
    const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
    words += words.empty() ? "" : " ";
    words += property == kExperiment || property == kStack
                 ? "--" + property + " " + text
                 : "--set " + shell_quoted(property + "=" + text);
  }
  return words;
}

std::vector<MemorySwitch> memory_switches(const MeasurementRequest& request, const Prediction& now,
                                          Oracle& oracle) {
  std::vector<MemorySwitch> switches;
  for (const Candidate& candidate : candidates(request, now)) {
    const auto one = tried(request, now, candidate.changes, candidate.trains_alike, oracle);
    if (one && one->saved_bytes >= kLeastShare * now.needed_bytes) switches.push_back(*one);
  }
  std::stable_sort(switches.begin(), switches.end(),
                   [](const MemorySwitch& a, const MemorySwitch& b) {
                     if (rank_of(a) != rank_of(b)) return rank_of(a) < rank_of(b);
                     if (a.time_factor && b.time_factor) return *a.time_factor < *b.time_factor;
                     return a.time_factor.has_value() && !b.time_factor.has_value();
                   });
  return switches;
}

std::optional<MemorySwitch> enough_switches(const MeasurementRequest& request,
                                            const Prediction& now,
                                            const std::vector<MemorySwitch>& switches,
                                            Oracle& oracle) {
  for (const MemorySwitch& one : switches) {
    if (rank_of(one) == 0 && one.prediction.fit == Fit::kFits) return one;
  }
  std::vector<MemorySwitch> taken;
  std::optional<MemorySwitch> together;
  const auto try_all = [&](const std::vector<MemorySwitch>& some) {
    const bool alike = std::all_of(some.begin(), some.end(),
                                   [](const MemorySwitch& one) { return one.trains_alike; });
    return tried(request, now, joined(some), alike, oracle);
  };
  for (const MemorySwitch& next : switches) {
    taken.push_back(next);
    const auto with_it = try_all(taken);
    if (!with_it || (together && with_it->saved_bytes <= together->saved_bytes)) {
      taken.pop_back();
      continue;
    }
    together = with_it;
    if (together->prediction.fit == Fit::kFits) break;
  }
  if (!together || together->prediction.fit != Fit::kFits) return std::nullopt;
  for (size_t i = taken.size(); i-- > 0 && taken.size() > 1;) {  // the last ones may be enough
    std::vector<MemorySwitch> fewer = taken;
    fewer.erase(fewer.begin() + static_cast<ptrdiff_t>(i));
    const auto without_it = try_all(fewer);
    if (!without_it || without_it->prediction.fit != Fit::kFits) continue;
    taken = std::move(fewer);
    together = without_it;
  }
  return together;
}

}  // namespace sftbench
