#include "cli/predict.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "cli/assumptions.h"
#include "cli/dataset_lengths.h"
#include "cli/definition_list.h"
#include "cli/evidence_option.h"
#include "cli/export_option.h"
#include "cli/machine_options.h"
#include "cli/number_checks.h"
#include "cli/predict_alternatives.h"
#include "cli/predict_exact.h"
#include "cli/predict_space.h"
#include "cli/quantized_method.h"
#include "cli/record.h"
#include "cli/selection.h"
#include "cli/worst_batch.h"
#include "sftbench/advise/odds.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/advise/own_evidence.h"
#include "sftbench/advise/scorecard.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/results/measurement.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kGigabyte = 1e9;

struct PredictArguments {
  Selection selection;
  std::string format = "table";
  MachineOverrides overrides;  // what replaces config/machines.yaml's figures
  SpacePrediction space;
  std::vector<std::string> evidence;
  bool rows = false;
  int64_t after = 0;
  std::string residuals;  // file to write
  bool exact = false;
  std::string own;    // --evidence
  DatasetForms data;  // --lengths-of
  std::optional<int64_t> tokens;
  std::vector<std::string> exports;
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
  const MachineModel& machine = prediction.machine;
  const double needed = needed_bytes(prediction.cost, prediction.job, machine);
  const double beside = needed - prediction.cost.memory.total();
  std::string text = gib(needed);
  if (machine.memory_bytes > 0) text += " of " + gib(machine.memory_bytes);
  if (beside > 0) text += " (" + gib(beside) + " beside tensors)";
  return text + verdict_text(prediction);
}

std::string percent_text(double share) {
  if (share > 0 && share < 0.001) return "below 0.1 %";
  return cell_text(std::round(1000 * share) / 10) + " %";
}

// What nine of ten measurements are expected to be, and what that rests on.
void put_intervals(const Prediction& prediction, const Uncertainty& uncertainty,
                   Definitions& lines) {
  const Interval time = uncertainty.interval(Figure::kTime, prediction.at);
  const Interval memory = uncertainty.interval(Figure::kMemory, prediction.at);
  const auto put = [&lines](const char* name, const std::string& range, const Interval& interval) {
    if (interval.residuals > 0)
      lines.emplace_back(name, range + " in nine of ten cases: " + basis_text(interval));
  };
  const auto range_text = [](const Range& range, const Interval& interval, auto unit) {
    const std::string expected = interval.own ? "expected " + unit(range.expected) + "; " : "";
    return expected + unit(range.low) + " to " + unit(range.high);
  };
  put("step interval", range_text(step_range(prediction, uncertainty), time, seconds), time);
  put("memory interval", range_text(memory_range(prediction, uncertainty), memory, gib), memory);
  if (prediction.cost.memory.fragmentation > 0) {
    const Range held = held_range(prediction, uncertainty);
    lines.emplace_back("held", gib(held.low) + " to " + gib(held.high) +
                                   ", as nvidia-smi shows it: the allocator gives free blocks "
                                   "back only when memory runs out");
  }
  if (memory.residuals == 0) return;
  if (const std::optional<Odds> odds = odds_of(prediction, uncertainty)) {
    lines.emplace_back("odds", "fits " + percent_text(odds->fits) + ", fits but thrashes " +
                                   percent_text(odds->thrashes) + ", runs out of memory " +
                                   percent_text(odds->dies));
  }
}

// How long a run over so many positions takes.
void put_run(const Prediction& prediction, const Uncertainty& uncertainty, int64_t tokens,
             Definitions& lines, Json& json) {
  const double step = prediction.cost.positions_per_second() * prediction.cost.step_s;
  const double steps = std::ceil(static_cast<double>(tokens) / step), hours = steps / 3600;
  const Range seconds_of_step = step_range(prediction, uncertainty);
  const auto text = [hours](double s) { return cell_text(short_figure(hours * s)) + " h"; };
  std::string line = std::to_string(tokens) + " tokens are " + cell_text(steps) + " steps, " +
                     text(seconds_of_step.expected);
  const Interval time = uncertainty.interval(Figure::kTime, prediction.at);
  if (time.residuals > 0)
    line += " (" + text(seconds_of_step.low) + " to " + text(seconds_of_step.high) + ")";
  lines.emplace_back("run", line);
  json["run"] = {{"tokens", tokens},
                 {"steps", steps},
                 {"hours",
                  {hours * seconds_of_step.low, hours * seconds_of_step.expected,
                   hours * seconds_of_step.high}}};
}

void put_network(const Prediction& prediction, Definitions& lines) {
  const DevicePlan& device = prediction.job.device;
  if (device.nodes < 2) return;
  const double bytes_per_s = prediction.machine.between.bytes_per_s;
  lines.emplace_back("network", cell_text(bytes_per_s / kGigabyte) + " GB/s of a rank, " +
                                    cell_text(bytes_per_s / kGigabyte *
                                              static_cast<double>(device.ranks / device.nodes)) +
                                    " of a node; --between-gb-per-s gives another");
}

Definitions lines_of(const Prediction& prediction, const Uncertainty& uncertainty) {
  const StepCost& cost = prediction.cost;
  const MemoryCost& m = cost.memory;
  const double tokens_per_s = cost.positions_per_second();
  Definitions lines = assumptions_of(prediction.job, prediction.machine.stack.name);
  lines.emplace_back("", step_text(prediction.job));
  const Definitions parts = {
      {"parameters", gib(m.parameters) + " of a rank, between steps"},
      {"gradients", gib(m.gradients)},
      {"optimizer state", gib(m.optimizer_state)},
      {"gathered", gib(m.gathered) + " at most: units and gradients that are not reduced yet"},
      {"activations", gib(m.activations)},
      {"logits", gib(m.logits)},
      {"workspace", gib(m.workspace) + " of the library of products"},
      {"memory", memory_text(prediction)},
      {"step", seconds(cost.step_s) + ": compute " + seconds(cost.compute_s) +
                   ", communication beside none " + seconds(cost.exposed_s) + " (of " +
                   seconds(cost.communication_s) + "), optimizer " + seconds(cost.optimizer_s) +
                   ", host " + seconds(cost.host_s)},
      {"throughput",
       cell_text(tokens_per_s) + " tokens/s, padding included; " +
           cell_text(tokens_per_s / static_cast<double>(prediction.job.device.ranks)) +
           " of a rank"}};
  lines.insert(lines.end(), parts.begin(), parts.end());
  if (m.offloaded_state + m.offloaded_activations + m.offloaded_parameters > 0) {
    lines.emplace_back("offloaded", gib(m.offloaded_parameters) + " of parameters and gradients, " +
                                        gib(m.offloaded_state) + " of optimizer state and " +
                                        gib(m.offloaded_activations) +
                                        " of activations, on the host; the step leaves their "
                                        "copies out");
  }
  put_network(prediction, lines);
  put_intervals(prediction, uncertainty, lines);
  for (const CollectiveCost& c : cost.collectives) {
    lines.emplace_back(c.operation, std::to_string(c.calls) + " a step over " + c.group + ", " +
                                        cell_text(c.sent_bytes / kGigabyte) +
                                        " GB sent by a rank, " + seconds(c.seconds));
  }
  return lines;
}

std::string in_full(const Prediction& prediction, const Definitions& lines) {
  const TrainingJob& job = prediction.job;
  const bool several = job.device.ranks > 1;
  const std::string& stack = prediction.machine.stack.name;
  const QuantizedMethod* method = quantized_method_of(stack);
  return "prediction, nothing was measured: " + job.model.name + ", " +
         (method != nullptr && row_of(job.tuning).quantized_weights ? method->name
                                                                    : name_of(job.tuning)) +
         ", " + (several ? name_of(job.parallel.strategy) + std::string(" on ") : std::string()) +
         std::to_string(job.device.ranks) + (several ? " ranks" : " rank") +
         (stack == "sftbench" ? "" : ", by " + stack) + "\n" + definition_list(lines);
}

Json interval_json(const Range& range, const Interval& interval) {
  if (interval.residuals == 0) return {};
  return {{"low", range.low}, {"expected", range.expected},         {"high", range.high},
          {"level", 0.9},     {"measurements", interval.residuals}, {"basis", interval.basis}};
}

Json as_json(const Prediction& prediction, const Uncertainty& uncertainty) {
  const auto& p = prediction;
  Json json = to_json(p.cost, p.job, p.machine);
  json["verdict"] = p.fit == Fit::kUnknown ? Json() : Json(name_of(p.fit));
  json["memory_bytes"]["needed"] = needed_bytes(p.cost, p.job, p.machine);
  const Interval time = uncertainty.interval(Figure::kTime, p.at);
  const Interval memory = uncertainty.interval(Figure::kMemory, p.at);
  json["step_seconds"]["interval"] = interval_json(step_range(p, uncertainty), time);
  json["memory_bytes"]["interval"] = interval_json(memory_range(p, uncertainty), memory);
  json["memory_bytes"]["held"] = interval_json(held_range(p, uncertainty), memory);
  const std::optional<Odds> odds =
      memory.residuals > 0 ? odds_of(p, uncertainty) : std::optional<Odds>();
  json["odds"] =
      odds ? Json({{"fits", odds->fits}, {"thrashes", odds->thrashes}, {"oom", odds->dies}})
           : Json();
  json["stack"] = p.machine.stack.name;
  return json;
}

// What the dataset's own lengths mean for memory, and for how long the run takes.
void put_worst_batch(const Prediction& prediction, const std::vector<int64_t>& lengths,
                     Oracle& oracle, const Uncertainty& uncertainty, Definitions& lines,
                     Json& json) {
  const WorstBatch worst = worst_batch(prediction.job, lengths);
  const Prediction at_worst =
      oracle.predict(job_of(worst, prediction.job), prediction.machine.stack.name);
  const Range memory = memory_range(at_worst, uncertainty);
  const std::optional<Odds> odds = odds_of(at_worst, uncertainty);
  const bool packed = prediction.job.data.padding == Padding::kPacked;
  std::string text = "step " + std::to_string(worst.step) + " of " + std::to_string(worst.steps) +
                     ", micro-batch " + std::to_string(worst.micro_batch) + " of rank " +
                     std::to_string(worst.rank) + ": " + std::to_string(worst.rows) + " x " +
                     std::to_string(worst.length) + " tokens";
  if (!packed) text += ", the longest is entry " + std::to_string(worst.entry);
  text +=
      "; needs " + gib(memory.expected) + " (" + gib(memory.low) + " to " + gib(memory.high) + ")";
  if (odds) text += "; the run is out of memory with " + percent_text(odds->dies);
  lines.emplace_back("worst batch", text);
  lines.emplace_back("rows", cell_text(worst.mean_length) + " tokens on average, padding included");
  json["worst_batch"] = {{"step", worst.step},
                         {"steps", worst.steps},
                         {"micro_batch", worst.micro_batch},
                         {"rank", worst.rank},
                         {"rows", worst.rows},
                         {"length", worst.length},
                         {"longest_entry", packed ? Json() : Json(worst.entry)},
                         {"mean_row_length", worst.mean_length},
                         {"memory_bytes", {memory.low, memory.expected, memory.high}},
                         {"out_of_memory_risk", odds ? Json(odds->dies) : Json()}};
}

// The exit status: whether it fits.
int predict_one(const LoadedSpace& loaded, const PredictArguments& arguments, OutputFormat format) {
  const ResolveOptions options = resolve_options(loaded, arguments.selection);
  const MeasurementRequest request = choose_request(loaded.space, arguments.selection);
  Oracle oracle(loaded.settings, options, arguments.overrides, Catalog::shipped());
  const Prediction prediction = oracle.predict(request);
  for (const std::string& note : prediction.notes) spdlog::info("{}", note);
  const Uncertainty uncertainty = uncertainty_with(arguments.own, oracle);
  Definitions lines = lines_of(prediction, uncertainty);
  Json json = as_json(prediction, uncertainty);
  if (asks_for_divisions(prediction)) {
    put_divisions(row_divisions(request, prediction.job, oracle), lines, json);
  }
  if (prediction.fit == Fit::kDies || prediction.fit == Fit::kTight) {
    const std::vector<MemorySwitch> switches = memory_switches(request, prediction, oracle);
    put_switches(switches, enough_switches(request, prediction, switches, oracle), lines, json);
  }
  if (!arguments.data.dataset.empty()) {
    put_worst_batch(prediction, count_data(arguments.data).lengths, oracle, uncertainty, lines,
                    json);
  }
  if (arguments.tokens) put_run(prediction, uncertainty, *arguments.tokens, lines, json);
  Fit fit = prediction.fit;
  if (arguments.exact) {
    ResolveOptions drawn = options;
    drawn.weights = "random";
    const ExactPrediction exact =
        predict_exactly(resolve(request, loaded.settings, drawn, Catalog::shipped()), prediction);
    for (auto& line : exact_lines(exact, prediction)) lines.push_back(std::move(line));
    json["exact"] = exact_json(exact);
    fit = exact.fit;
  }
  if (!arguments.exports.empty()) {
    ExportedJobs written = write_exports(arguments.exports, prediction.job, loaded.model_path,
                                         prediction.machine.stack.name);
    for (auto& line : written.lines) lines.push_back(std::move(line));
    json["export"] = std::move(written.json);
  }
  print_record(in_full(prediction, lines), json, format);
  return fit == Fit::kDies ? exit_code(Status::kInvalid) : 0;
}

bool is_one(const LoadedSpace& loaded, const Selection& selection) {
  const bool one_entity = loaded.space.entity_count() == 1 || !selection.entity.empty();
  return one_entity && loaded.space.experiments.size() == 1;
}

// --- scorecard ------------------------------------------------------------------------------------

// A file, or the evidence of a results folder.
void append_evidence(const std::string& place, std::vector<Evidence>& rows) {
  const std::vector<std::string> files = evidence_files(place);
  if (files.empty()) {
    throw InputError({{place, 0, {}, "has no evidence", "what sftbench import makes", {}}});
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
  if (!arguments.residuals.empty()) {
    const ResidualTable table = compare_all(evidence, settings, Catalog::shipped());
    AtomicFile file(arguments.residuals, NamedBy::kUser);
    file.append(table.text());
    file.commit();
    spdlog::info("{}: {} residuals", arguments.residuals, table.rows().size());
    return 0;
  }
  Oracle oracle(settings, {}, arguments.overrides, Catalog::shipped());
  std::vector<ScoredRow> rows = score(evidence, oracle, Catalog::shipped());
  if (arguments.after > 0) {
    sharpen(rows, ResidualTable::shipped(), static_cast<size_t>(arguments.after));
  } else {
    judge_coverage(rows, ResidualTable::shipped());
  }
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

int predict(PredictArguments arguments) {
  const OutputFormat format = output_format(arguments.format);
  StackModel::named(arguments.overrides.stack);
  if (!arguments.evidence.empty()) return score_evidence(arguments, format);
  const LoadedSpace loaded = load_space(arguments.selection);
  if (!loaded.stack.empty() && arguments.overrides.stack == MachineOverrides().stack)
    arguments.overrides.stack = loaded.stack;
  for (const Diagnostic& warning : loaded.warnings) spdlog::warn("{}", to_string(warning));
  const bool one = is_one(loaded, arguments.selection);
  if (arguments.exact && !one) {
    throw InputError({{{}, 0, "--exact", "the space has several entities", "--entity", {}}});
  }
  if (!arguments.data.dataset.empty() && !one) {
    throw InputError({{{}, 0, "--lengths-of", "the space has several entities", "--entity", {}}});
  }
  if (!arguments.exports.empty() && !one) {
    throw InputError({{{}, 0, "--export", "the space has several entities", "--entity", {}}});
  }
  if (arguments.tokens && !one) {
    throw InputError({{{}, 0, "--tokens", "the space has several entities", "--entity", {}}});
  }
  if (one) return predict_one(loaded, arguments, format);
  predict_space(loaded, resolve_options(loaded, arguments.selection), arguments.overrides,
                arguments.space, arguments.own, format);
  return 0;
}

}  // namespace

void add_predict_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "predict", "what entities would take, by arithmetic: memory, traffic, seconds of a step");
  const auto arguments = std::make_shared<PredictArguments>();
  add_selection_options(*command, arguments->selection);
  arguments->selection.predicts = true;
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  add_machine_options(*command, arguments->overrides);
  add_space_prediction_options(*command, arguments->space);
  command
      ->add_option("--score", arguments->evidence,
                   "how far predictions are from evidence: files that import made, or their folder")
      ->type_name("FILE");
  command
      ->add_option("--after", arguments->after,
                   "with --score: as if N others of each row's model and machine were measured")
      ->type_name("N")
      ->transform(whole_number(1));
  command
      ->add_option("--save-residuals", arguments->residuals,
                   "with --score: write what intervals rest on, as config/residuals.json, instead")
      ->type_name("FILE");
  add_evidence_option(*command, arguments->own);
  command
      ->add_option("--lengths-of", arguments->data.dataset,
                   "data whose lengths are counted: a file, a folder, a dataset of the hub that is "
                   "here, or a generated one")
      ->type_name("FILE");
  arguments->data.text_field =
      command
          ->add_option("--lengths-field", arguments->data.options.text_field,
                       "its field with the text")
          ->type_name("NAME")
          ->capture_default_str();
  command
      ->add_option("--lengths-tokenizer", arguments->data.tokenizer,
                   "directory with tokenizer.json (default: the tokenizer that ships)")
      ->type_name("DIR");
  command
      ->add_option("--tokens", arguments->tokens,
                   "of one entity: how long so many tokens take, padding included: 50M, 1.5B")
      ->transform(token_count())
      ->option_text("N");
  command->add_flag("--exact", arguments->exact,
                    "of one entity: run three steps on a GPU that is not there, and count its "
                    "memory to the byte (a build for GPUs, no GPU)");
  add_export_option(*command, arguments->exports);
  command->add_flag("--rows", arguments->rows, "with --score: each row instead of summaries");
  command->footer(R"(
What is not given comes from config/gpus.yaml and config/machines.yaml; of CPUs
nothing is known. One entity is shown in full, several as a table.
The exit status of one entity is 0 when it fits, and 3 when it does not.

Examples:
  sftbench predict space.yaml --entity 3 && sftbench run space.yaml --entity 3
  sftbench predict space.yaml --sort tokens_per_s --verdict fits --limit 10
  sftbench predict space.yaml --entity 3 --evidence results
  sftbench predict space.yaml --entity 3 --lengths-of mine.jsonl \
    --lengths-field text
  sftbench predict --score results --stack fms-hf-tuning
  sftbench predict --experiment finetune_full_benchmark-v1.0.0 \
    --set model_name=llama3.1-8b --set number_gpus=8 \
    --set gpu_model=NVIDIA-H100-80GB-HBM3 --set batch_size=16 \
    --set model_max_length=8192 --set distributed_backend=FSDP)");
  command->callback([arguments, &exit_code] { exit_code = predict(*arguments); });
}

}  // namespace sftbench
