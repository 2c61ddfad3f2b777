#include "sftbench/advise/oracle.h"

#include <algorithm>

#include "sftbench/advise/odds.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/families/decoder_like.h"
#include "sftbench/families/model_shape.h"
#include "sftbench/plan/support.h"
#include "sftbench/predict/machine_catalog.h"
#include "sftbench/space/validity.h"

namespace sftbench {
namespace {

constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;
void replace(const std::optional<double>& given, double unit, double& figure) {
  if (given) figure = *given * unit;
}

void need(const std::string& machine, bool known, const char* option, const char* what) {
  if (known) return;
  throw InputError(
      {{{},
        0,
        option,
        "not given, and not known of " + machine + ": " + what,
        machine != "CPUs" ? "a number above 0"
                          : "a number above 0, or what sftbench doctor --probe measures",
        {}}});
}

void need_all(const TrainingJob& job, const MachineModel& machine) {
  const std::string name = job.device.kind == "cuda" ? job.device.gpu_model : "CPUs";
  need(name, machine.flops_per_s > 0, "--flops-per-s",
       "FLOP/s that large products of a rank reach");
  const bool several = job.device.ranks > 1;
  need(name, !several || machine.inside.bytes_per_s > 0, "--inside-gb-per-s",
       "what a rank sends to others of its node, GB/s");
  need(name, !several || job.device.nodes < 2 || machine.between.bytes_per_s > 0,
       "--between-gb-per-s", "what a rank sends to other nodes, GB/s");
}

Fit fit_of(double needed_bytes, const MachineModel& machine) {
  if (machine.memory_bytes <= 0) return Fit::kUnknown;
  const double share = needed_bytes / machine.memory_bytes;
  if (share > kUsableMemory) return Fit::kDies;
  return share > kComfortableMemory ? Fit::kTight : Fit::kFits;
}

}  // namespace

const char* name_of(Fit fit) {
  switch (fit) {
    case Fit::kFits:
      return "fits";
    case Fit::kTight:
      return "tight";
    case Fit::kDies:
      return "oom";
    case Fit::kUnknown:
      break;
  }
  return "unknown";
}

double needed_bytes(const StepCost& cost, const TrainingJob& job, const MachineModel& machine) {
  if (job.device.kind != "cuda") return cost.memory.total();
  const double others = job.device.ranks > 1 ? machine.stack.communicator_bytes : 0;
  return cost.memory.total() + machine.stack.context_bytes + others;
}

Oracle::Oracle(const ActuatorSettings& settings, const ResolveOptions& options,
               const MachineOverrides& overrides, const Catalog& catalog)
    : settings_(settings), options_(options), overrides_(overrides), catalog_(catalog) {
  options_.weights = "random";  // shapes are all that is needed
  options_.predicts = true;
  settings_.data_directory.reset();  // no entry is read
}

const MachineModel& Oracle::listed_machine(const std::string& gpu, const std::string& dtype) {
  const auto key = std::make_pair(gpu, dtype);
  const auto found = machines_.find(key);
  if (found != machines_.end()) return found->second;
  return machines_.emplace(key, machine_of(gpu, dtype, catalog_.gpus, MachineCatalog::shipped()))
      .first->second;
}

bool Oracle::is_described(const std::string& gpu) const {
  return catalog_.gpus.find(gpu) == nullptr && overrides_.flops_per_s &&
         overrides_.memory_gb_per_s && overrides_.memory_gib;
}

void Oracle::assume_shares(const std::string& gpu, MachineModel& machine) const {
  const MachineFacts* own = MachineCatalog::shipped().find(gpu);
  const MachineFacts* other = MachineCatalog::shipped().find(overrides_.shares_of);
  if (own == nullptr || other == nullptr) return;
  machine.flops_per_s *= other->reached / own->reached;
  machine.fp8_flops_per_s *= other->reached / own->reached;
  machine.attention_flops_per_s *= other->attention / own->attention;
  machine.element_bytes_per_s *= other->elements / own->elements;
}

// What doctor --probe found of this machine's processors.
std::optional<MachineModel> Oracle::probed_cpu(const TrainingJob& job) {
  if (!looked_for_probe_) {
    probe_ = ProbedMachine::read(probe_file(), probe_problem_);
    looked_for_probe_ = true;
  }
  return probe_ ? probe_->machine_for(job) : std::nullopt;
}

MachineModel Oracle::machine_for(const TrainingJob& job, const StackModel& stack) {
  MachineModel machine;
  if (job.device.kind == "cuda") {
    machine =
        is_described(job.device.gpu_model)
            ? unlisted_machine(*overrides_.flops_per_s, *overrides_.memory_gb_per_s * kGiga,
                               *overrides_.memory_gib * kGiB, MachineCatalog::shipped())
            : listed_machine(job.device.gpu_model,
                             product_dtype_name(job.precision.torch_dtype, job.precision.autocast));
    machine.stack = stack;
    const auto on_a_node = static_cast<double>(job.device.ranks / job.device.nodes);
    if (machine.between.shared) machine.between.bytes_per_s /= std::max(1.0, on_a_node);
  } else if (const std::optional<MachineModel> probed = probed_cpu(job)) {
    machine = *probed;
  }
  if (!overrides_.shares_of.empty()) assume_shares(job.device.gpu_model, machine);
  if (overrides_.no_overlap) machine.overlaps = false;
  if (overrides_.flops_per_s) {
    machine.products.clear();
    machine.head_flops_per_s = machine.fp8_flops_per_s = 0;
  }
  replace(overrides_.flops_per_s, 1, machine.flops_per_s);
  replace(overrides_.attention_flops_per_s, 1, machine.attention_flops_per_s);
  replace(overrides_.element_gb_per_s, kGiga, machine.element_bytes_per_s);
  replace(overrides_.memory_gb_per_s, kGiga, machine.memory_bytes_per_s);
  replace(overrides_.memory_gib, kGiB, machine.memory_bytes);
  if (overrides_.free_gib && machine.memory_bytes > 0)
    machine.memory_bytes = std::min(machine.memory_bytes, *overrides_.free_gib * kGiB);
  if (overrides_.inside_gb_per_s || overrides_.inside_latency_us) machine.inside_sums = {};
  replace(overrides_.inside_gb_per_s, kGiga, machine.inside.bytes_per_s);
  replace(overrides_.inside_latency_us, kMicro, machine.inside.latency_s);
  replace(overrides_.between_gb_per_s, kGiga, machine.between.bytes_per_s);
  replace(overrides_.between_latency_us, kMicro, machine.between.latency_s);
  if (machine.flops_per_s <= 0 && !probe_problem_.empty()) throw InputError(probe_problem_);
  need_all(job, machine);
  return machine;
}

Prediction Oracle::predict(const MeasurementRequest& request) {
  return predict(request, overrides_.stack);
}

bool Oracle::has_own_constants() const {
  const MachineOverrides& o = overrides_;
  return o.flops_per_s || o.attention_flops_per_s || o.element_gb_per_s || o.memory_gb_per_s ||
         o.inside_gb_per_s || o.inside_latency_us || o.between_gb_per_s || o.between_latency_us;
}

const StackModel& Oracle::stack_named(const std::string& stack) {
  const auto known = stacks_.find(stack);
  if (known != stacks_.end()) return known->second;
  return stacks_.emplace(stack, StackModel::named(stack)).first->second;
}

// All of a prediction whose job stands.
void Oracle::complete(Prediction& prediction, const StackModel& stack) {
  const TrainingJob& job = prediction.job;
  prediction.machine = machine_for(job, stack);
  prediction.cost = predict_step(job, prediction.machine);
  prediction.at = {.machine = "CPU",
                   .stack = stack.name,
                   .method = name_of(row_of(job.tuning).quantized_weights ? TuningMethod::kGptqLora
                                                                          : job.tuning),
                   .model = job.model.name,
                   .ranks = job.device.ranks,
                   .batch = job.batches.per_device_batch_size,
                   .length = job.data.model_max_length,
                   .checkpointing = job.activations.gradient_checkpointing,
                   .eager_attention = !job.kernels.flash_attention,
                   .run_variance = std::nullopt,
                   .nodes = job.device.nodes,
                   .float8 = job.precision.autocast == Autocast::kFp8,
                   .of_other_family = !stands_for(job.model.hf_config).empty()};
  const MachineFacts* facts = MachineCatalog::shipped().find(job.device.gpu_model);
  if (job.device.kind != "cuda") {
    if (probe_ && !has_own_constants()) prediction.at.run_variance = probe_->run_variance();
  } else if (facts == nullptr) {
    prediction.at.machine = job.device.gpu_model + ", given constants";
  } else {
    prediction.at.machine = facts->gpus.front() + (has_own_constants() ? ", given constants" : "");
    prediction.fitted = std::count(facts->fitted.begin(), facts->fitted.end(), job.model.name) > 0;
  }
  put_expected(prediction);
}

void Oracle::put_expected(Prediction& prediction) const {
  const bool moved = own_ != nullptr && own_->has_own();
  const Range step = moved ? step_range(prediction, *own_) : Range();
  const Range memory = moved ? memory_range(prediction, *own_) : Range();
  prediction.step_s = moved ? step.expected : prediction.cost.step_s;
  prediction.needed_bytes =
      moved ? memory.expected : needed_bytes(prediction.cost, prediction.job, prediction.machine);
  prediction.fit = fit_of(prediction.needed_bytes, prediction.machine);
}

Prediction Oracle::resolved(const MeasurementRequest& request) {
  return resolved(request, stack_named(overrides_.stack));
}

void Oracle::complete(Prediction& prediction) {
  complete(prediction, stack_named(overrides_.stack));
}

Prediction Oracle::predict(const MeasurementRequest& request, const std::string& stack) {
  const StackModel& known = stack_named(stack);
  Prediction prediction = resolved(request, known);
  complete(prediction, known);
  return prediction;
}

Prediction Oracle::resolved(const MeasurementRequest& request, const StackModel& stack) {
  const std::vector<Violation> violations = validate(request.inputs, catalog_.models);
  if (!violations.empty()) {
    throw RunError(violations.front().code, violations.front().message);
  }
  Prediction prediction;
  Resolution resolution = resolve(request, settings_, options_, catalog_);
  prediction.job = std::move(resolution.job);
  prediction.notes = std::move(resolution.notes);
  if (const Json& config = prediction.job.model.hf_config; !stands_for(config).empty()) {
    prediction.notes.push_back(
        "model_name " + prediction.job.model.name + " is of the family " + stands_for(config) +
        ", which is not trained here. It is predicted as the " +
        config.value("model_type", std::string()) + " of its sizes, which has " +
        counted(parameter_count(config), "parameter"));
  }
  if (stack.updates_in_backward && prediction.job.batches.gradient_accumulation_steps > 1) {
    throw RunError(ReasonCode::kUnsupported,
                   "--stack " + stack.name +
                       " frees each gradient in the backward pass, so that "
                       "none accumulates; gradient_accumulation_steps 1 works");
  }
  // fms-hf-tuning takes its fused kernels only where it is asked to.
  const Json& fast = request.inputs.at("fast_kernels");
  if (stack.name != "sftbench" && !stack.fused_by_default && fast.is_null()) {
    KernelPlan& kernels = prediction.job.kernels;
    kernels.fused_loss = kernels.fused_rms_norm = kernels.fused_rope = false;
  }
  if (stack.reduces_each_micro_batch) {
    prediction.job.parallel.gradient_sync = GradientSync::kEach;
  }
  return prediction;
}

Prediction Oracle::predict(const TrainingJob& job, const std::string& stack) {
  Prediction prediction;
  prediction.job = job;
  complete(prediction, stack_named(stack));
  return prediction;
}

MeasurementRequest request_of(const Experiment& experiment, const Json& inputs) {
  Entity entity;
  for (const auto& [name, value] : inputs.items()) {
    if (experiment.find(name) == nullptr) {
      throw InputError({{{},
                         0,
                         name,
                         "is no property of " + experiment.identifier,
                         "one that is",
                         nearest_spelling(name, experiment.names())}});
    }
    entity.values.emplace_back(name, value);
  }
  return make_request(entity, {&experiment, {}});
}

}  // namespace sftbench
