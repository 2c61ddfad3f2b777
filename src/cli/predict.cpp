#include "cli/predict.h"

#include <spdlog/spdlog.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "cli/definition_list.h"
#include "cli/number_checks.h"
#include "cli/record.h"
#include "cli/selection.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/cost_model.h"
#include "sftbench/plan/machine_catalog.h"
#include "sftbench/results/table.h"
#include "sftbench/space/validity.h"

namespace sftbench {
namespace {

constexpr double kGiB = 1 << 30;
constexpr double kGiga = 1e9;
constexpr double kMicro = 1e-6;

struct PredictArguments {
  Selection selection;
  std::string format = "table";
  // What replaces config/machines.yaml's figures.
  std::optional<double> flops_per_s, memory_gb_per_s, memory_gib;
  bool no_overlap = false;
  std::optional<double> inside_gb_per_s, inside_latency_us, between_gb_per_s, between_latency_us;
};

void replace(const std::optional<double>& given, double unit, double& figure) {
  if (given) figure = *given * unit;
}

MachineModel machine_for(const TrainingJob& job, const PredictArguments& arguments) {
  const Catalog& catalog = Catalog::shipped();
  MachineModel machine;
  if (job.device.kind == "cuda") {
    const auto file = resource_directory() / "config" / "machines.yaml";
    machine = machine_of(job.device.gpu_model,
                         product_dtype_name(job.precision.torch_dtype, job.precision.autocast),
                         catalog.gpus, MachineCatalog::read(file.string(), catalog.gpus));
  }
  machine.overlaps = !arguments.no_overlap;
  replace(arguments.flops_per_s, 1, machine.flops_per_s);
  replace(arguments.memory_gb_per_s, kGiga, machine.memory_bytes_per_s);
  replace(arguments.memory_gib, kGiB, machine.memory_bytes);
  replace(arguments.inside_gb_per_s, kGiga, machine.inside.bytes_per_s);
  replace(arguments.inside_latency_us, kMicro, machine.inside.latency_s);
  replace(arguments.between_gb_per_s, kGiga, machine.between.bytes_per_s);
  replace(arguments.between_latency_us, kMicro, machine.between.latency_s);
  const auto need = [](bool known, const char* option, const char* what) {
    if (!known) {
      throw InputError({{{},
                         0,
                         option,
                         std::string("not given, and not known of CPUs: ") + what,
                         "a number above 0",
                         {}}});
    }
  };
  need(machine.flops_per_s > 0, "--flops-per-s",
       "FLOP/s that a rank's training reaches, recomputation included");
  const bool several = job.device.ranks > 1;
  need(!several || machine.inside.bytes_per_s > 0, "--inside-gb-per-s",
       "what a rank sends to others of its node, GB/s");
  need(!several || job.device.nodes < 2 || machine.between.bytes_per_s > 0, "--between-gb-per-s",
       "what a rank sends to other nodes, GB/s");
  return machine;
}

std::string gib(double bytes) {
  return cell_text(bytes / kGiB) + " GiB";
}
std::string seconds(double s) {
  return cell_text(s) + " s";
}

std::string in_full(const StepCost& cost, const TrainingJob& job, const MachineModel& machine) {
  const MemoryCost& m = cost.memory;
  const bool several = job.device.ranks > 1;
  Definitions lines = {
      {"parameters", gib(m.parameters) + " of a rank, between steps"},
      {"gradients", gib(m.gradients)},
      {"optimizer state", gib(m.optimizer_state)},
      {"gathered", gib(m.gathered) + " at most: units and gradients that are not reduced yet"},
      {"activations", gib(m.activations)},
      {"logits", gib(m.logits)},
      {"memory",
       gib(m.total()) + (machine.memory_bytes > 0
                             ? " of " + gib(machine.memory_bytes) +
                                   (m.total() <= machine.memory_bytes ? ": fits" : ": does not fit")
                             : std::string())},
      {"step", seconds(cost.step_s) + ": compute " + seconds(cost.compute_s) +
                   ", communication beside none " + seconds(cost.exposed_s) + " (of " +
                   seconds(cost.communication_s) + "), optimizer " + seconds(cost.optimizer_s)},
      {"throughput",
       cell_text(cost.positions_per_second()) + " tokens/s, padding included; " +
           cell_text(cost.positions_per_second() / static_cast<double>(job.device.ranks)) +
           " of a rank"}};
  for (const CollectiveCost& c : cost.collectives) {
    lines.emplace_back(c.operation, std::to_string(c.calls) + " a step over " + c.group + ", " +
                                        cell_text(c.sent_bytes / kGiga) + " GB sent by a rank, " +
                                        seconds(c.seconds));
  }
  return "prediction, nothing was measured: " + job.model.name + ", " + name_of(job.tuning) + ", " +
         (several ? name_of(job.parallel.strategy) + std::string(" on ") : std::string()) +
         std::to_string(job.device.ranks) + (several ? " ranks" : " rank") + "\n" +
         definition_list(lines);
}

int predict(const PredictArguments& arguments) {
  const OutputFormat format = output_format(arguments.format);
  const Catalog& catalog = Catalog::shipped();
  const LoadedSpace loaded = load_space(arguments.selection);
  for (const Diagnostic& warning : loaded.warnings) spdlog::warn("{}", to_string(warning));
  const MeasurementRequest request = choose_request(loaded.space, arguments.selection);
  const std::vector<Violation> violations = validate(request.inputs, catalog.models);
  if (!violations.empty()) {
    throw RunError(violations.front().code, violations.front().message);
  }
  ResolveOptions options = resolve_options(loaded, arguments.selection);
  options.weights = "random";  // shapes are all that is needed
  ActuatorSettings settings = loaded.settings;
  settings.data_directory.reset();  // no entry is read
  const Resolution resolution = resolve(request, settings, options, catalog);
  for (const std::string& note : resolution.notes) spdlog::info("{}", note);
  const TrainingJob& job = resolution.job;
  const MachineModel machine = machine_for(job, arguments);
  const StepCost cost = predict_step(job, machine);
  print_record(in_full(cost, job, machine), to_json(cost, job, machine), format);
  return 0;
}

}  // namespace

void add_predict_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "predict", "what one entity would take, by arithmetic: memory, traffic, seconds of a step");
  const auto arguments = std::make_shared<PredictArguments>();
  add_selection_options(*command, arguments->selection);
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  const auto figure = [command](const char* name, std::optional<double>& value,
                                const char* meaning) {
    command->add_option(name, value, meaning)->check(above_zero())->type_name("X");
  };
  figure("--flops-per-s", arguments->flops_per_s, "that a rank's training reaches");
  figure("--memory-gb-per-s", arguments->memory_gb_per_s, "of a rank's memory");
  figure("--memory-gib", arguments->memory_gib, "that a rank has");
  figure("--inside-gb-per-s", arguments->inside_gb_per_s, "that a rank sends within its node");
  figure("--inside-latency-us", arguments->inside_latency_us, "of a hop within a node");
  figure("--between-gb-per-s", arguments->between_gb_per_s, "that a rank sends to other nodes");
  figure("--between-latency-us", arguments->between_latency_us, "of a hop between nodes");
  command->add_flag("--no-overlap", arguments->no_overlap,
                    "transfers take the core that computes, as on CPUs with a rank on every core");
  command->footer(R"(
What is not given comes from config/gpus.yaml and config/machines.yaml; of CPUs
nothing is known.

Examples:
  sftbench predict space.yaml --entity 3
  sftbench predict --experiment finetune_full_benchmark-v1.0.0 \
    --set model_name=llama3.1-8b --set number_gpus=8 \
    --set gpu_model=NVIDIA-H100-80GB-HBM3 --set batch_size=16 \
    --set model_max_length=8192 --set distributed_backend=FSDP)");
  command->callback([arguments, &exit_code] { exit_code = predict(*arguments); });
}

}  // namespace sftbench
