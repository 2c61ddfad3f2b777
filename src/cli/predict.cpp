#include "cli/predict.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "cli/definition_list.h"
#include "cli/number_checks.h"
#include "cli/predict_exact.h"
#include "cli/predict_space.h"
#include "cli/record.h"
#include "cli/selection.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/advise/scorecard.h"
#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

constexpr double kGiB = 1 << 30;
constexpr double kBytesInGb = 1e9;

struct PredictArguments {
  Selection selection;
  std::string format = "table";
  MachineOverrides overrides;  // what replaces config/machines.yaml's figures
  SpacePrediction space;
  std::vector<std::string> evidence;
  bool rows = false;
  bool exact = false;
};

std::string gib(double bytes) {
  return cell_text(bytes / kGiB) + " GiB";
}
std::string seconds(double s) {
  return cell_text(s) + " s";
}

std::string verdict_text(const Prediction& prediction) {
  switch (prediction.fit) {
    case Fit::kFits:
      return ": fits";
    case Fit::kTight:
      return ": tight, fragmentation may make it die";
    case Fit::kDies:
      return ": does not fit";
    case Fit::kUnknown:
      break;
  }
  return {};
}

std::string memory_text(const Prediction& prediction) {
  const auto& [job, machine, cost, fit, notes] = prediction;
  const double needed = needed_bytes(cost, job, machine);
  const double beside = needed - cost.memory.total();
  std::string text = gib(needed);
  if (machine.memory_bytes > 0) text += " of " + gib(machine.memory_bytes);
  if (beside > 0) text += " (" + gib(beside) + " beside tensors)";
  return text + verdict_text(prediction);
}

Definitions lines_of(const Prediction& prediction) {
  const auto& [job, machine, cost, fit, notes] = prediction;
  const MemoryCost& m = cost.memory;
  const double tokens_per_s = cost.positions_per_second();
  Definitions lines = {
      {"parameters", gib(m.parameters) + " of a rank, between steps"},
      {"gradients", gib(m.gradients)},
      {"optimizer state", gib(m.optimizer_state)},
      {"gathered", gib(m.gathered) + " at most: units and gradients that are not reduced yet"},
      {"activations", gib(m.activations)},
      {"logits", gib(m.logits)},
      {"memory", memory_text(prediction)},
      {"step", seconds(cost.step_s) + ": compute " + seconds(cost.compute_s) +
                   ", communication beside none " + seconds(cost.exposed_s) + " (of " +
                   seconds(cost.communication_s) + "), optimizer " + seconds(cost.optimizer_s) +
                   ", host " + seconds(cost.host_s)},
      {"throughput", cell_text(tokens_per_s) + " tokens/s, padding included; " +
                         cell_text(tokens_per_s / static_cast<double>(job.device.ranks)) +
                         " of a rank"}};
  if (m.offloaded_state + m.offloaded_activations + m.offloaded_parameters > 0) {
    lines.emplace_back("offloaded", gib(m.offloaded_parameters) + " of parameters and gradients, " +
                                        gib(m.offloaded_state) + " of optimizer state and " +
                                        gib(m.offloaded_activations) +
                                        " of activations, on the host; the step leaves their "
                                        "copies out");
  }
  if (machine.error_p90 > 0) {
    lines.emplace_back("error",
                       "nine of ten steps that others measured on this GPU, with models "
                       "that were not fitted, were within " +
                           cell_text(100 * machine.error_p90) + " %");
  }
  for (const CollectiveCost& c : cost.collectives) {
    lines.emplace_back(c.operation, std::to_string(c.calls) + " a step over " + c.group + ", " +
                                        cell_text(c.sent_bytes / kBytesInGb) +
                                        " GB sent by a rank, " + seconds(c.seconds));
  }
  return lines;
}

std::string in_full(const Prediction& prediction, const Definitions& lines) {
  const TrainingJob& job = prediction.job;
  const bool several = job.device.ranks > 1;
  const std::string& stack = prediction.machine.stack.name;
  return "prediction, nothing was measured: " + job.model.name + ", " + name_of(job.tuning) + ", " +
         (several ? name_of(job.parallel.strategy) + std::string(" on ") : std::string()) +
         std::to_string(job.device.ranks) + (several ? " ranks" : " rank") +
         (stack == "sftbench" ? "" : ", by " + stack) + "\n" + definition_list(lines);
}

Json as_json(const Prediction& prediction) {
  const auto& [job, machine, cost, fit, notes] = prediction;
  Json json = to_json(cost, job, machine);
  json["verdict"] = fit == Fit::kUnknown ? Json() : Json(name_of(fit));
  json["memory_bytes"]["needed"] = needed_bytes(cost, job, machine);
  json["step_seconds"]["error_p90"] = machine.error_p90 > 0 ? Json(machine.error_p90) : Json();
  json["stack"] = machine.stack.name;
  return json;
}

void predict_one(const LoadedSpace& loaded, const PredictArguments& arguments,
                 OutputFormat format) {
  const ResolveOptions options = resolve_options(loaded, arguments.selection);
  const MeasurementRequest request = choose_request(loaded.space, arguments.selection);
  Oracle oracle(loaded.settings, options, arguments.overrides, Catalog::shipped());
  const Prediction prediction = oracle.predict(request);
  for (const std::string& note : prediction.notes) spdlog::info("{}", note);
  Definitions lines = lines_of(prediction);
  Json json = as_json(prediction);
  if (arguments.exact) {
    ResolveOptions drawn = options;
    drawn.weights = "random";
    const ExactPrediction exact =
        predict_exactly(resolve(request, loaded.settings, drawn, Catalog::shipped()), prediction);
    for (auto& line : exact_lines(exact, prediction)) lines.push_back(std::move(line));
    json["exact"] = exact_json(exact);
  }
  print_record(in_full(prediction, lines), json, format);
}

bool is_one(const LoadedSpace& loaded, const Selection& selection) {
  const bool one_entity = loaded.space.entity_count() == 1 || !selection.entity.empty();
  return one_entity && loaded.space.experiments.size() == 1;
}

// --- scorecard ------------------------------------------------------------------------------------

// A file, or the evidence of a results folder.
void append_evidence(const std::string& place, std::vector<Evidence>& rows) {
  std::error_code error;
  std::vector<std::string> files = {place};
  if (fs::is_directory(place, error)) {
    files.clear();
    for (const auto& entry : fs::directory_iterator(fs::path(place) / "evidence", error)) {
      if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
    }
    std::sort(files.begin(), files.end());
    if (files.empty()) {
      throw InputError({{place, 0, {}, "has no evidence", "what sftbench import makes", {}}});
    }
  }
  for (const std::string& file : files) {
    for (Evidence& row : read_evidence(file)) rows.push_back(std::move(row));
  }
}

int score_evidence(const PredictArguments& arguments, OutputFormat format) {
  if (!arguments.selection.space_path.empty() || !arguments.selection.assignments.empty()) {
    throw InputError({{{},
                       0,
                       "--score",
                       "is given beside a space",
                       "one of them: evidence brings its own configurations",
                       {}}});
  }
  std::vector<Diagnostic> warnings;
  const ActuatorSettings settings =
      read_actuator_settings(arguments.selection.config_path, nullptr, {}, warnings);
  std::vector<Evidence> evidence;
  for (const std::string& place : arguments.evidence) append_evidence(place, evidence);
  if (evidence.empty()) throw InputError({{arguments.evidence.front(), 0, {}, "is empty", "", {}}});
  Oracle oracle(settings, {}, arguments.overrides, Catalog::shipped());
  const std::vector<ScoredRow> rows = score(evidence, oracle, Catalog::shipped());
  if (arguments.rows) {
    print_table(scored_rows(rows), format);
    return 0;
  }
  print_table(score_table(rows), format);
  const bool for_people = format == OutputFormat::kTable || format == OutputFormat::kMarkdown;
  if (for_people) {
    std::cout << '\n';
    print_table(verdict_table(rows), format);
  }
  return 0;
}

int predict(const PredictArguments& arguments) {
  const OutputFormat format = output_format(arguments.format);
  StackModel::named(arguments.overrides.stack);
  if (!arguments.evidence.empty()) return score_evidence(arguments, format);
  const LoadedSpace loaded = load_space(arguments.selection);
  for (const Diagnostic& warning : loaded.warnings) spdlog::warn("{}", to_string(warning));
  const bool one = is_one(loaded, arguments.selection);
  if (arguments.exact && !one) {
    throw InputError({{{}, 0, "--exact", "the space has several entities", "--entity", {}}});
  }
  if (one) {
    predict_one(loaded, arguments, format);
  } else {
    predict_space(loaded, resolve_options(loaded, arguments.selection), arguments.overrides,
                  arguments.space, format);
  }
  return 0;
}

void add_machine_options(CLI::App& command, MachineOverrides& machine) {
  const auto figure = [&command](const char* name, std::optional<double>& value,
                                 const char* meaning) {
    command.add_option(name, value, meaning)->check(above_zero())->type_name("X");
  };
  figure("--flops-per-s", machine.flops_per_s, "that large products of a rank reach");
  figure("--attention-flops-per-s", machine.attention_flops_per_s, "that attention reaches");
  figure("--element-gb-per-s", machine.element_gb_per_s, "that element-wise kernels reach");
  figure("--memory-gb-per-s", machine.memory_gb_per_s, "of a rank's memory");
  figure("--memory-gib", machine.memory_gib, "that a rank has");
  figure("--inside-gb-per-s", machine.inside_gb_per_s, "that a rank sends within its node");
  figure("--inside-latency-us", machine.inside_latency_us, "of a hop within a node");
  figure("--between-gb-per-s", machine.between_gb_per_s, "that a rank sends to other nodes");
  figure("--between-latency-us", machine.between_latency_us, "of a hop between nodes");
  command.add_flag("--no-overlap", machine.no_overlap,
                   "transfers take the core that computes, as on CPUs with a rank on every core");
  command
      .add_option("--stack", machine.stack,
                  "what trains: this program, or the Python stack of the documents")
      ->type_name("sftbench|fms-hf-tuning")
      ->capture_default_str();
}

}  // namespace

void add_predict_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "predict", "what entities would take, by arithmetic: memory, traffic, seconds of a step");
  const auto arguments = std::make_shared<PredictArguments>();
  add_selection_options(*command, arguments->selection);
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  add_machine_options(*command, arguments->overrides);
  add_space_prediction_options(*command, arguments->space);
  command
      ->add_option("--score", arguments->evidence,
                   "how far predictions are from evidence: files that import made, or their folder")
      ->type_name("FILE");
  command->add_flag("--exact", arguments->exact,
                    "of one entity: run three steps on a GPU that is not there, and count its "
                    "memory to the byte (a build for GPUs, no GPU)");
  command->add_flag("--rows", arguments->rows, "with --score: each row instead of summaries");
  command->footer(R"(
What is not given comes from config/gpus.yaml and config/machines.yaml; of CPUs
nothing is known. One entity is shown in full, several as a table.

Examples:
  sftbench predict space.yaml --entity 3
  sftbench predict space.yaml --sort tokens_per_s --verdict fits --limit 10
  sftbench predict --score results --stack fms-hf-tuning
  sftbench predict --experiment finetune_full_benchmark-v1.0.0 \
    --set model_name=llama3.1-8b --set number_gpus=8 \
    --set gpu_model=NVIDIA-H100-80GB-HBM3 --set batch_size=16 \
    --set model_max_length=8192 --set distributed_backend=FSDP)");
  command->callback([arguments, &exit_code] { exit_code = predict(*arguments); });
}

}  // namespace sftbench
