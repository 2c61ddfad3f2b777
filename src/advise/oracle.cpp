#include "sftbench/advise/oracle.h"

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/plan/machine_catalog.h"
#include "sftbench/space/validity.h"

namespace sftbench {
namespace {

constexpr double kGiB = 1 << 30;
constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;
// Of a device's memory: what the driver and the allocator's blocks leave to tensors, and what they
// leave to them without trouble.
constexpr double kUsable = 0.985;
constexpr double kComfortable = 0.93;

const MachineCatalog& shipped_machines() {
  static const MachineCatalog kMachines = MachineCatalog::read(
      (resource_directory() / "config" / "machines.yaml").string(), Catalog::shipped().gpus);
  return kMachines;
}

void replace(const std::optional<double>& given, double unit, double& figure) {
  if (given) figure = *given * unit;
}

void need(bool known, const char* option, const char* what) {
  if (known) return;
  throw InputError({{{},
                     0,
                     option,
                     std::string("not given, and not known of CPUs: ") + what,
                     "a number above 0",
                     {}}});
}

void need_all(const TrainingJob& job, const MachineModel& machine) {
  need(machine.flops_per_s > 0, "--flops-per-s", "FLOP/s that large products of a rank reach");
  const bool several = job.device.ranks > 1;
  need(!several || machine.inside.bytes_per_s > 0, "--inside-gb-per-s",
       "what a rank sends to others of its node, GB/s");
  need(!several || job.device.nodes < 2 || machine.between.bytes_per_s > 0, "--between-gb-per-s",
       "what a rank sends to other nodes, GB/s");
}

}  // namespace

const char* name_of(Fit fit) {
  switch (fit) {
    case Fit::kFits:
      return "fits";
    case Fit::kTight:
      return "tight";
    case Fit::kDies:
      return "dies";
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

Fit fit_of(const StepCost& cost, const TrainingJob& job, const MachineModel& machine) {
  if (machine.memory_bytes <= 0) return Fit::kUnknown;
  const double share = needed_bytes(cost, job, machine) / machine.memory_bytes;
  if (share > kUsable) return Fit::kDies;
  return share > kComfortable ? Fit::kTight : Fit::kFits;
}

Oracle::Oracle(const ActuatorSettings& settings, const ResolveOptions& options,
               const MachineOverrides& overrides, const Catalog& catalog)
    : settings_(settings), options_(options), overrides_(overrides), catalog_(catalog) {
  options_.weights = "random";       // shapes are all that is needed
  settings_.data_directory.reset();  // no entry is read
}

const MachineModel& Oracle::listed_machine(const std::string& gpu, const std::string& dtype) {
  const auto key = std::make_pair(gpu, dtype);
  const auto found = machines_.find(key);
  if (found != machines_.end()) return found->second;
  return machines_.emplace(key, machine_of(gpu, dtype, catalog_.gpus, shipped_machines()))
      .first->second;
}

MachineModel Oracle::machine_for(const TrainingJob& job, const StackModel& stack) {
  MachineModel machine;
  if (job.device.kind == "cuda") {
    machine = listed_machine(job.device.gpu_model,
                             product_dtype_name(job.precision.torch_dtype, job.precision.autocast));
    machine.stack = stack;
  }
  machine.overlaps = !overrides_.no_overlap;
  replace(overrides_.flops_per_s, 1, machine.flops_per_s);
  replace(overrides_.attention_flops_per_s, 1, machine.attention_flops_per_s);
  replace(overrides_.element_gb_per_s, kGiga, machine.element_bytes_per_s);
  replace(overrides_.memory_gb_per_s, kGiga, machine.memory_bytes_per_s);
  replace(overrides_.memory_gib, kGiB, machine.memory_bytes);
  replace(overrides_.inside_gb_per_s, kGiga, machine.inside.bytes_per_s);
  replace(overrides_.inside_latency_us, kMicro, machine.inside.latency_s);
  replace(overrides_.between_gb_per_s, kGiga, machine.between.bytes_per_s);
  replace(overrides_.between_latency_us, kMicro, machine.between.latency_s);
  need_all(job, machine);
  return machine;
}

Prediction Oracle::predict(const MeasurementRequest& request) {
  return predict(request, overrides_.stack);
}

Prediction Oracle::predict(const MeasurementRequest& request, const std::string& stack) {
  const std::vector<Violation> violations = validate(request.inputs, catalog_.models);
  if (!violations.empty()) {
    throw RunError(violations.front().code, violations.front().message);
  }
  auto known = stacks_.find(stack);
  if (known == stacks_.end()) known = stacks_.emplace(stack, StackModel::named(stack)).first;
  Prediction prediction;
  Resolution resolution = resolve(request, settings_, options_, catalog_);
  prediction.job = std::move(resolution.job);
  prediction.notes = std::move(resolution.notes);
  prediction.machine = machine_for(prediction.job, known->second);
  // fms-hf-tuning takes its fused kernels only where it is asked to.
  const Json& fast = request.inputs.at("fast_kernels");
  if (stack != "sftbench" && fast.is_null()) {
    KernelPlan& kernels = prediction.job.kernels;
    kernels.fused_loss = kernels.fused_rms_norm = kernels.fused_rope = false;
  }
  if (known->second.reduces_each_micro_batch) {
    prediction.job.parallel.gradient_sync = GradientSync::kEach;
  }
  prediction.cost = predict_step(prediction.job, prediction.machine);
  prediction.fit = fit_of(prediction.cost, prediction.job, prediction.machine);
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
