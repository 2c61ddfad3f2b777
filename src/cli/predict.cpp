#include "cli/predict.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "cli/assumptions.h"
#include "cli/dataset_lengths.h"
#include "cli/definition_list.h"
#include "cli/evidence_option.h"
#include "cli/export_option.h"
#include "cli/machine_options.h"
#include "cli/number_checks.h"
#include "cli/own_model_check.h"
#include "cli/predict_alternatives.h"
#include "cli/predict_exact.h"
#include "cli/predict_space.h"
#include "cli/predicted_rows.h"
#include "cli/quantized_method.h"
#include "cli/record.h"
#include "cli/selection.h"
#include "sftbench/advise/odds.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/advise/own_evidence.h"
#include "sftbench/advise/scorecard.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/data_sets.h"
#include "sftbench/results/measurement.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kGigabyte = 1e9;
constexpr const char* kByArithmetic = " by arithmetic";  // where own measurements move it

struct PredictArguments {
  Selection selection;
  std::string format = "table";
  MachineOverrides overrides;  // what replaces config/machines.yaml's figures
  SpacePrediction space;
  std::vector<std::string> evidence;
  bool rows = false;
  bool exact = false;
  std::string own;    // --evidence
  DatasetForms data;  // --lengths-of
  std::optional<int64_t> tokens;
  std::vector<std::string> exports;
};

std::string verdict_text(Fit fit) {
  if (fit == Fit::kFits) return ": fits";
  if (fit == Fit::kTight) return ": tight, fragmentation may make it die";
  return fit == Fit::kDies ? ": does not fit" : "";
}

std::string memory_text(const Prediction& prediction) {
  const MachineModel& machine = prediction.machine;
  const double arithmetic = needed_bytes(prediction.cost, prediction.job, machine);
  const double beside = arithmetic - prediction.cost.memory.total();
  std::string text = in_gib(prediction.needed_bytes);
  if (machine.memory_bytes > 0) text += " of " + in_gib(machine.memory_bytes);
  if (beside > 0) text += " (" + in_gib(beside) + " beside tensors)";
  if (prediction.needed_bytes != arithmetic) text += ", " + in_gib(arithmetic) + kByArithmetic;
  return text + verdict_text(prediction.fit);
}

double bytes_on_host(const MemoryCost& m) {
  return m.offloaded_state + m.offloaded_activations + m.offloaded_parameters;
}

std::string step_time_text(const Prediction& prediction) {
  const StepCost& cost = prediction.cost;
  std::string text = in_seconds(prediction.step_s);
  if (prediction.step_s != cost.step_s) text += ", " + in_seconds(cost.step_s) + kByArithmetic;
  return text + ": compute " + in_seconds(cost.compute_s) + ", communication beside none " +
         in_seconds(cost.exposed_s) + " (of " + in_seconds(cost.communication_s) + "), optimizer " +
         in_seconds(cost.optimizer_s) + ", host " + in_seconds(cost.host_s) +
         (cost.copies_s > 0 ? ", copies to it " + in_seconds(cost.copies_s) : "");
}

// How long a run over so many positions takes.
void put_run(const Prediction& prediction, const Uncertainty& uncertainty, int64_t tokens,
             Definitions& lines, Json& json) {
  const auto step = static_cast<double>(prediction.cost.positions);
  const double steps = std::ceil(static_cast<double>(tokens) / step), hours = steps / 3600;
  const Range seconds_of_step = step_range(prediction, uncertainty);
  const auto text = [hours](double s) { return cell_text(short_figure(hours * s)) + " h"; };
  std::string line = counted(tokens, "token is", "tokens are") + " " +
                     counted(static_cast<int64_t>(steps), "step") + ", " +
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

Definitions lines_of(const TrainingJob& job, const PredictedRows& rows,
                     const Uncertainty& uncertainty) {
  const Prediction& prediction = rows.time;
  const StepCost& cost = prediction.cost;
  const MemoryCost& m = rows.memory.cost.memory;
  const double tokens_per_s = prediction.positions_per_second();
  Definitions lines = assumptions_of(job, prediction.machine.stack.name);
  lines.emplace_back("", step_text(job));
  lines.emplace_back("", rows.words());
  const Definitions parts = {
      {"parameters", in_gib(m.parameters) + " of a rank, between steps"},
      {"gradients", in_gib(m.gradients)},
      {"optimizer state", in_gib(m.optimizer_state)},
      {"gathered", in_gib(m.gathered) + " at most: units and gradients that are not reduced yet"},
      {"activations", in_gib(m.activations)},
      {"logits", in_gib(m.logits)},
      {"workspace", in_gib(m.workspace) + " of the library of products"},
      {"memory", memory_text(rows.memory)},
      {"step", step_time_text(prediction)},
      {"throughput",
       cell_text(tokens_per_s) + " tokens/s, padding included; " +
           cell_text(tokens_per_s / static_cast<double>(prediction.job.device.ranks)) +
           " of a rank"}};
  lines.insert(lines.end(), parts.begin(), parts.end());
  if (bytes_on_host(m) > 0) {
    lines.emplace_back("offloaded",
                       in_gib(m.offloaded_parameters) + " of parameters and gradients, " +
                           in_gib(m.offloaded_state) + " of optimizer state and " +
                           in_gib(m.offloaded_activations) + " of activations, on the host");
  }
  put_network(prediction, lines);
  put_intervals(rows, uncertainty, lines);
  for (const CollectiveCost& c : cost.collectives) {
    lines.emplace_back(c.operation, std::to_string(c.calls) + " a step over " + c.group + ", " +
                                        cell_text(c.sent_bytes / kGigabyte) +
                                        " GB sent by a rank, " + in_seconds(c.seconds));
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
         counted(job.device.ranks, "rank") + (stack == "sftbench" ? "" : ", by " + stack) + "\n" +
         definition_list(lines);
}

Json interval_json(const Range& range, const Interval& interval) {
  if (interval.residuals == 0) return {};
  return {{"low", range.low}, {"expected", range.expected},         {"high", range.high},
          {"level", 0.9},     {"measurements", interval.residuals}, {"basis", interval.basis}};
}

Json as_json(const PredictedRows& rows, const Uncertainty& uncertainty) {
  const Prediction &time_of = rows.time, &p = rows.memory;
  StepCost cost = time_of.cost;
  cost.memory = p.cost.memory;
  Json json = to_json(cost, p.job, p.machine);
  const bool known = p.fit != Fit::kUnknown;
  json["verdict"] = known ? Json(name_of(p.fit)) : Json();
  json["fits"] = known ? Json(p.fit != Fit::kDies) : Json();
  json["memory_bytes"]["needed"] = p.needed_bytes;
  json["step_seconds"]["expected"] = time_of.step_s;
  json["padded_tokens_per_second"] = time_of.positions_per_second();
  json["padded_tokens_per_second_per_device"] =
      time_of.positions_per_second() / static_cast<double>(p.job.device.ranks);
  const Interval time = uncertainty.interval(Figure::kTime, time_of.at);
  const Interval memory = uncertainty.interval(Figure::kMemory, p.at);
  json["step_seconds"]["interval"] = interval_json(step_range(time_of, uncertainty), time);
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

// Of --lengths-of, or of the files that are trained on; none: not known.
TrainedLengths lengths_of(const PredictArguments& arguments, const MeasurementRequest& request,
                          const TrainingJob& job) {
  if (!arguments.data.dataset.empty())
    return {count_data("--lengths-of", arguments.data).lengths, {}};
  const bool given =
      request.inputs.value("training_data_path", Json()).is_string() || !job.data.mixture.empty();
  if (!given || !job.data.image_field.empty() || lacks_chat_template(job)) return {};
  const std::vector<DataSet> sets = data_sets(job);
  const bool are_here = std::all_of(sets.begin(), sets.end(), [](const DataSet& set) {
    std::error_code error;
    return std::filesystem::exists(set.source.path, error);
  });
  return are_here ? count_lengths(job) : TrainedLengths();
}

// The exit status: whether it fits.
int predict_one(const LoadedSpace& loaded, const PredictArguments& arguments, OutputFormat format) {
  const ResolveOptions options = resolve_options(loaded, arguments.selection);
  const MeasurementRequest request = choose_request(loaded.space, arguments.selection);
  Oracle oracle(loaded.settings, options, arguments.overrides, Catalog::shipped());
  const Uncertainty uncertainty = uncertainty_with(arguments.own, oracle);
  oracle.rest_on(uncertainty);
  const Prediction full = oracle.predict(request);
  for (const std::string& note : full.notes)
    spdlog::info("{}", in_given_words(note, loaded, arguments.selection));
  const TrainedLengths trained = lengths_of(arguments, request, full.job);
  PredictedRows rows = predicted_rows(full, trained.lengths, oracle);
  if (rows.worst && !trained.entries.empty())
    rows.worst->entry = trained.entries[static_cast<size_t>(rows.worst->entry)];
  const MeasurementRequest asked = rows.alternatives(request);
  Definitions lines = lines_of(full.job, rows, uncertainty);
  Json json = as_json(rows, uncertainty);
  if (rows.memory.fit == Fit::kDies || rows.memory.fit == Fit::kTight) {
    const std::vector<MemorySwitch> switches = memory_switches(asked, rows.memory, oracle);
    put_switches(switches, enough_switches(asked, rows.memory, switches, oracle), lines, json);
  }
  if (rows.worst) put_worst_batch(rows, uncertainty, lines, json);
  if (arguments.tokens) put_run(rows.time, uncertainty, *arguments.tokens, lines, json);
  Fit fit = rows.memory.fit;
  if (arguments.exact) {
    ResolveOptions drawn = options;
    drawn.weights = "random";
    const ExactPrediction exact =
        predict_exactly(resolve(request, loaded.settings, drawn, Catalog::shipped()), full);
    for (auto& line : exact_lines(exact, full)) lines.push_back(std::move(line));
    json["exact"] = exact_json(exact);
    fit = exact.fit;
  }
  if (!arguments.exports.empty()) {
    ExportedJobs written =
        write_exports(arguments.exports, full.job, loaded.model_path, full.machine.stack.name);
    for (auto& line : written.lines) lines.push_back(std::move(line));
    json["export"] = std::move(written.json);
  }
  print_record(in_full(full, lines), json, format);
  return fit == Fit::kDies ? exit_code(Status::kInvalid) : 0;
}

bool is_one(const LoadedSpace& loaded, const Selection& selection) {
  const bool one_entity = loaded.space.entity_count() == 1 || !selection.entity.empty();
  return one_entity && loaded.space.experiments.size() == 1;
}

// --- scorecard -----------------------------------------------------------------------------------

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
  Oracle oracle(settings, {}, arguments.overrides, Catalog::shipped());
  std::vector<ScoredRow> rows = score(evidence, oracle, Catalog::shipped());
  judge_coverage(rows, ResidualTable::shipped());
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

// Nothing that is asked for is left out in silence. `one`: the space has one entity.
void refuse_what_has_no_effect(const PredictArguments& arguments, bool one) {
  const SpacePrediction& space = arguments.space;
  const DatasetForms& data = arguments.data;
  const bool counts = !data.dataset.empty();
  const char *no_score = "belongs to --score, which is not given",
             *no_data = "belongs to --lengths-of, which is not given",
             *no_table = "is of a table, and this is one entity",
             *several = "the space has several entities";
  const struct {
    const char* option;
    bool is_idle;
    const char *message, *expected;
  } options[] = {
      {"--rows", arguments.rows, no_score, "--score FILE beside it"},
      {"--lengths-field", !counts && data.text_field->count() > 0, no_data,
       "--lengths-of FILE beside it"},
      {"--lengths-tokenizer", !counts && !data.tokenizer.empty(), no_data,
       "--lengths-of FILE beside it"},
      {"--sort", one && !space.sort.empty(), no_table, "a space of several entities"},
      {"--verdict", one && !space.verdicts.empty(), no_table, "a space of several entities"},
      {"--limit", one && space.limit.has_value(), no_table, "a space of several entities"},
      {"--exact", !one && arguments.exact, several, "--entity"},
      {"--lengths-of", !one && counts, several, "--entity"},
      {"--export", !one && !arguments.exports.empty(), several, "--entity"},
      {"--tokens", !one && arguments.tokens.has_value(), several, "--entity"},
  };
  for (const auto& [option, is_idle, message, expected] : options)
    if (is_idle) throw InputError({{{}, 0, option, message, expected, {}}});
  static const std::set<std::string_view> kForms = {
      "--data",         "--template",      "--text-field",   "--conversation-column",
      "--input-column", "--output-column", "--chat-template"};
  for (const GivenOption& given : arguments.selection.arguments) {
    if (counts && kForms.contains(given.option->option)) {
      throw InputError({{{},
                         0,
                         given.option->option,
                         "has no effect on --lengths-of",
                         "--data FILE in the place of --lengths-of, which takes every form",
                         {}}});
    }
  }
}

bool has_own_data(const Space& space) {
  if (space.entity_count() == 0) return false;
  const Json inputs = make_request(space.entity(0), space.experiments.front()).inputs;
  return inputs.value("training_data_path", Json()).is_string() || inputs.contains("data_mixture");
}

bool asks_gpus(const Space& space) {
  if (space.entity_count() == 0) return false;
  const Json inputs = make_request(space.entity(0), space.experiments.front()).inputs;
  return inputs.value("number_gpus", Json()) > 0;
}

// A file of another program is about that program, unless --stack says otherwise.
std::string stack_of_file(const PredictArguments& arguments, const LoadedSpace& loaded) {
  const ArgumentFile& file = loaded.file;
  const bool trl = file.program == kTrlProgram;
  std::string stack = arguments.overrides.stack;
  if (!arguments.overrides.says_stack && quantized_method_of(stack) == nullptr &&
      !file.program.empty() && asks_gpus(loaded.space)) {
    stack = kPeoplesStack;
    spdlog::info("{} trains by transformers: --stack sftbench predicts this program instead{}",
                 file.program,
                 trl ? ", and --stack transformers a trl before 1.15, which holds all logits" : "");
  }
  if (file.program.empty() && !arguments.selection.arguments_paths.empty() &&
      !arguments.overrides.says_stack && stack == StackModel().name && asks_gpus(loaded.space)) {
    spdlog::info(
        "nothing tells whose file {} is: sftbench is predicted, and --stack {} is another program",
        join(arguments.selection.arguments_paths), file.stack.empty() ? kPeoplesStack : file.stack);
  }
  stack = stack_beside(stack, loaded.space.experiments.front().experiment->tuning);
  if (stack == kPeoplesStack && !file.stack.empty()) stack = file.stack;
  if (trl && !arguments.overrides.says_stack)
    return stack_with(stack, kTrlLoss);  // beside Liger's kernels, too
  return file.spares_logits ? stack_with(stack, kLigerLoss) : stack;
}

int predict(PredictArguments arguments) {
  const OutputFormat format = output_format(arguments.format);
  StackModel::named(arguments.overrides.stack);
  if (!arguments.evidence.empty()) return score_evidence(arguments, format);
  const LoadedSpace loaded = load_space(arguments.selection);
  std::string& stack = arguments.overrides.stack;
  if (const QuantizedMethod* method = loaded.quantized) {
    const bool is_chosen = !arguments.overrides.says_stack && !method->trains;
    stack = is_chosen ? method->stack : stack_over(stack, *method);
  }
  stack = stack_of_file(arguments, loaded);
  for (const Diagnostic& warning : loaded.warnings) spdlog::warn("{}", to_string(warning));
  ResolveOptions shapes = resolve_options(loaded, arguments.selection);
  shapes.weights = "random";
  shapes.predicts = true;
  refuse_own_mistakes(loaded, arguments.selection, shapes);
  const bool one = is_one(loaded, arguments.selection);
  refuse_what_has_no_effect(arguments, one);
  if (one) return predict_one(loaded, arguments, format);
  if (has_own_data(loaded.space)) {
    spdlog::info(
        "rows are taken as full, of model_max_length: the lengths of data count for one "
        "entity (--entity N)");
  }
  predict_space(loaded, resolve_options(loaded, arguments.selection), arguments.overrides,
                arguments.space, arguments.own, format);
  return 0;
}

void add_lengths_options(CLI::App& command, DatasetForms& data) {
  command
      .add_option("--lengths-of", data.dataset,
                  "data whose lengths are counted: a file, a folder, a dataset of the hub that is "
                  "here, or a generated one")
      ->type_name("FILE");
  data.text_field =
      command.add_option("--lengths-field", data.options.text_field, "its field with the text")
          ->type_name("NAME")
          ->capture_default_str();
  command
      .add_option("--lengths-tokenizer", data.tokenizer,
                  "directory with tokenizer.json (default: the tokenizer that ships)")
      ->type_name("DIR");
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
  add_evidence_option(*command, arguments->own);
  add_lengths_options(*command, arguments->data);
  command
      ->add_option("--tokens", arguments->tokens,
                   "of one entity: how long so many tokens take, padding included: 50M, 1.5B")
      ->transform(whole_number(1, kMostTokenCount))
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
