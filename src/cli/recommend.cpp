#include "cli/recommend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cli/dataset_lengths.h"
#include "cli/definition_list.h"
#include "cli/evidence_option.h"
#include "cli/export_option.h"
#include "cli/machine_options.h"
#include "cli/number_checks.h"
#include "cli/own_training.h"
#include "cli/price_options.h"
#include "cli/quantized_method.h"
#include "cli/recommendation_view.h"
#include "cli/recommended_data.h"
#include "cli/record.h"
#include "sftbench/advise/recommend.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/data/packing.h"
#include "sftbench/results/table.h"
#include "sftbench/translate/argument_options.h"

namespace sftbench {
namespace {

struct RecommendArguments {
  std::string model, method = "lora";
  DatasetForms data;
  std::optional<int64_t> entries, tokens;
  std::optional<double> epochs;
  int64_t length = 2048, batch = 32, most_gpus = 8;
  std::optional<int64_t> owned_gpus;  // --own
  std::string gpus, prices, config_path, format = "table", padding;
  std::vector<std::string> assignments;  // --set
  std::optional<double> deadline_s, budget;
  bool allow_tight = false;
  std::string most_risk, own;  // --max-oom-risk, --evidence
  MachineOverrides overrides;
  std::vector<std::string> exports;
};

[[noreturn]] void refuse(const std::string& key, const std::string& found,
                         const std::string& expected, const std::string& nearest = {}) {
  throw InputError({{{}, 0, key, found, expected, nearest}});
}

// "1%" or "0.01".
double share_of(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const double share = unit == "%" ? number / 100 : number;
  if (error == std::errc() && (unit.empty() || unit == "%") && share > 0 && share < 1) return share;
  refuse("--max-oom-risk", "found '" + text + "'", "a share above 0 and below 1: 1%, or 0.01");
}

bool has_tokenizer(const std::string& folder) {
  std::error_code error;
  return !folder.empty() &&
         std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json", error);
}

// What predicts a card that the catalog does not have.
bool describes_gpu(const MachineOverrides& machine) {
  return machine.flops_per_s && machine.memory_gb_per_s && machine.memory_gib;
}

std::vector<std::string> gpus_of(const RecommendArguments& arguments, const PriceBook& prices) {
  const std::string& list = arguments.gpus;
  const GpuCatalog& catalog = Catalog::shipped().gpus;
  std::vector<std::string> gpus;
  if (list.empty()) {
    for (const bool kept : {true, false}) {
      for (const auto& [gpu, price] : prices.prices)
        if (price.is_kept() == kept) gpus.push_back(gpu);
      if (!gpus.empty()) break;
    }
    return gpus;
  }
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name(trimmed(std::string_view(list).substr(begin, end - begin)));
    const GpuFacts* gpu = catalog.find(name);
    if (gpu == nullptr && (name.empty() || !describes_gpu(arguments.overrides))) {
      refuse("--gpus", "unknown GPU '" + name + "'",
             "names of `sftbench gpus`, or what a card has: --flops-per-s, --memory-gb-per-s and "
             "--memory-gib",
             nearest_spelling(name, catalog.names()));
    }
    // Who owns several wants to know of all of them.
    const bool several = arguments.owned_gpus.value_or(1) > 1;
    if (gpu == nullptr && several && !arguments.overrides.inside_gb_per_s) {
      refuse("--own", std::to_string(*arguments.owned_gpus) + " of a GPU that is not listed",
             "--inside-gb-per-s beside it: what they send to each other");
    }
    const std::string& known = gpu == nullptr ? name : gpu->name;
    if (std::count(gpus.begin(), gpus.end(), known) == 0) gpus.push_back(known);
    begin = end + 1;
  }
  return gpus;
}

Workload counted_workload(const RecommendArguments& arguments, const CountedData& data) {
  Workload work;
  work.model_max_length = arguments.length;
  work.epochs = arguments.epochs.value_or(1);
  work.lengths = data.lengths;
  work.entries = static_cast<int64_t>(work.lengths.size());
  work.counted = counted(work.entries, "entry", "entries") + ", counted with " +
                 (arguments.data.tokenizer.empty() ? "the tokenizer that ships (--tokenizer DIR)"
                                                   : arguments.data.tokenizer);
  if (arguments.tokens) work.epochs = static_cast<double>(*arguments.tokens) / work.tokens();
  return work;
}

Workload packed_workload(Workload work) {
  std::vector<int64_t> rows, kept = std::move(work.lengths);
  for (int64_t& length : kept) length = std::min(length, work.model_max_length);
  for (const std::vector<int64_t>& pack : pack_entries(kept, work.model_max_length)) {
    rows.push_back(0);
    for (const int64_t entry : pack) rows.back() += kept[static_cast<size_t>(entry)];
  }
  work.counted += ", packed into " + counted(std::ssize(rows), "row");
  work.entries_per_row = static_cast<double>(work.entries) / static_cast<double>(rows.size());
  work.entries = static_cast<int64_t>(rows.size());
  work.lengths = std::move(rows);
  work.padding = Padding::kPacked;
  return work;
}

// What is asked of a run over the user's own data. Both ways are tried where none is given.
void put_data(const RecommendArguments& arguments, const CountedData& data, Question& question) {
  question.workload = counted_workload(arguments, data);
  Workload packed = packed_workload(question.workload);
  if (arguments.padding == name_of(Padding::kPacked)) {
    question.workload = std::move(packed);
    return;
  }
  const bool both = arguments.padding.empty() && packed.entries < question.workload.entries;
  const char* other = both ? " (--padding packed, too)" : " (--padding packed)";
  question.workload.counted += std::string("; batches are padded to their longest entry") + other;
  packed.counted += " (--padding longest pads them)";
  if (both) question.packed = std::move(packed);
}

void put_workload(const RecommendArguments& arguments, const std::optional<CountedData>& data,
                  Question& question) {
  const bool counts = arguments.entries || (arguments.tokens && !data);
  if (arguments.tokens && (arguments.entries || (data && arguments.epochs)))
    refuse("--tokens", std::string("given beside ") + (data ? "--epochs" : "--entries"),
           "one of them");
  if (data) return put_data(arguments, *data, question);
  if (!counts) {
    refuse("--data", "not given",
           "a file of entries, or --entries N or --tokens N with --length L");
  }
  if (arguments.padding == name_of(Padding::kPacked))
    refuse("--padding", "packs entries of one length", "--data with it, or longest");
  Workload& work = question.workload;
  work.model_max_length = arguments.length;
  work.epochs = arguments.epochs.value_or(1);
  work.entries = arguments.entries.value_or(0);
  if (arguments.tokens)
    work.entries = (*arguments.tokens + work.model_max_length - 1) / work.model_max_length;
}

// Of the catalog, of model_map, or one's own, which is added to model_map: as `predict --model`
// takes it. InputError.
OwnModel add_model(const std::string& given, ActuatorSettings& settings) {
  const ModelCatalog& models = Catalog::shipped().models;
  if (models.find(given) != nullptr || settings.model_map.count(given) > 0) return {};
  std::error_code error;
  if (given.find('/') == std::string::npos && !std::filesystem::is_directory(given, error)) {
    const NearModel near = models.near(given);
    refuse("--model", "unknown model '" + given + "'",
           "a name of `sftbench models`, or of model_map in --config, or a model's folder" +
               (near.same_shapes ? "; " + near.name + " has the same shapes" : std::string()),
           near.name);
  }
  if (const NearModel near = models.near(given); near.same_shapes)
    spdlog::info("{} has the shapes of {}", given, near.name);
  const OwnModel own = own_model("--model", given);
  add_to_model_map(own, settings);
  return own;
}

// Properties that the search chooses, or that an option of the command gives, with that option.
const std::map<std::string, std::string> kAskedOtherwise = {
    {"model_name", "--model"},
    {"gpu_model", "--gpus"},
    {"number_gpus", "--max-gpus"},
    {"number_nodes", "--max-gpus"},
    {"model_max_length", "--length"},
    {"batch_size", "--batch"},
    {"gradient_accumulation_steps", "--batch"},
    {"num_train_epochs", "--epochs"},
    {"context_parallel", "--max-gpus"}};

// What --set gives, as results are keyed by it: read as a space of one entity, whose other values
// are no matter.
Json given_inputs(const RecommendArguments& arguments, const Experiment& experiment,
                  const std::string& model) {
  SpaceOptions options;
  options.experiment = experiment.identifier;
  options.extra_models = {model};
  options.assignments = arguments.assignments;
  Json given = Json::object();
  for (const std::string& text : arguments.assignments) {
    const std::string property = text.substr(0, text.find('='));
    if (const auto other = kAskedOtherwise.find(property); other != kAskedOtherwise.end())
      refuse("--set " + property, "is what the search varies", other->second);
    given[property] = nullptr;
  }
  for (const char* other : {"model_max_length=2048", "batch_size=1", "number_gpus=0"})
    options.assignments.emplace_back(other);
  options.given.push_back({"--model", "model_name", text_node(model)});
  const Space space = space_from_assignments(Catalog::shipped(), options);
  if (space.entity_count() != 1)
    refuse("--set", "gives several values", "one value for each property");
  for (const auto& [property, value] : space.entity(0).values) {
    if (given.contains(property)) given[property] = experiment.find(property)->canonical(value);
  }
  return given;
}

// What a rank of one machine reaches is no other GPU's.
void check_figures(const MachineOverrides& machine, const std::vector<std::string>& gpus) {
  const bool given = machine.flops_per_s || machine.attention_flops_per_s ||
                     machine.element_gb_per_s || machine.memory_gb_per_s || machine.memory_gib;
  if (given && gpus.size() > 1)
    refuse("--gpus", "several, beside figures of a machine", "one of them");
}

Question question_of(const RecommendArguments& arguments, const PriceBook& prices,
                     const OwnModel& own, const std::optional<CountedData>& data) {
  Question question;
  question.experiment = &experiment_of_method(arguments.method);
  question.model = own.name.empty() ? arguments.model : own.name;
  question.given = given_inputs(arguments, *question.experiment, question.model);
  question.gpus = gpus_of(arguments, prices);
  check_figures(arguments.overrides, question.gpus);
  question.batch = arguments.batch;
  question.by_this_program = arguments.overrides.stack == StackModel().name;
  question.owned = arguments.owned_gpus.has_value();
  question.most_gpus = arguments.owned_gpus.value_or(arguments.most_gpus);
  question.deadline_s = arguments.deadline_s;
  question.budget = arguments.budget;
  question.allow_tight = arguments.allow_tight;
  if (!arguments.most_risk.empty()) question.most_risk = share_of(arguments.most_risk);
  put_workload(arguments, data, question);
  return question;
}

void print_answer(const RecommendationView& view, const ExportedJobs& exports,
                  OutputFormat output) {
  if (output == OutputFormat::kJson || output == OutputFormat::kJsonLines) {
    Json json = as_json(view);
    if (!exports.json.empty()) json["export"] = exports.json;
    print_record({}, json, output);
    return;
  }
  const auto text = output == OutputFormat::kTable      ? definition_list
                    : output == OutputFormat::kMarkdown ? as_markdown
                                                        : nullptr;
  if (text != nullptr) std::cout << text(assumptions_of(view)) << "\n";
  print_table(table_of(view), output);
  Definitions lines = reasons_of(view);
  lines.insert(lines.end(), exports.lines.begin(), exports.lines.end());
  if (text != nullptr) std::cout << "\n" << text(lines);
}

// The best one, over all of its data.
ExportedJobs exports_of(const RecommendArguments& arguments, const Recommendation& answer,
                        const Question& question, const std::string& own_model,
                        const std::optional<CountedData>& data) {
  TrainingJob job = answer.job;
  if (data) put_own_data(arguments.data.dataset, *data, job.data);
  job.data.model_max_length = question.workload.model_max_length;
  job.batches.num_train_epochs = question.workload.epochs;
  ExportedJobs exports =
      write_exports(arguments.exports, job, own_model, arguments.overrides.stack);
  if (!exports.lines.empty() && !data)
    exports.lines.emplace_back("", "the data are the experiments': put yours in their place");
  return exports;
}

void check_owned(const RecommendArguments& arguments) {
  if (!arguments.owned_gpus) return;
  if (arguments.gpus.empty()) refuse("--own", "names no GPU", "--gpus NAME beside it");
  if (arguments.budget)
    refuse("--budget", "given beside --own, which rents nothing", "one of them");
}

void recommend(RecommendArguments arguments) {
  check_owned(arguments);
  const QuantizedMethod* method = find_quantized_method(arguments.method);
  if (method != nullptr) arguments.overrides.stack = stack_over(arguments.overrides.stack, *method);
  const OutputFormat format = output_format(arguments.format);
  const Catalog& catalog = Catalog::shipped();
  StackModel::named(arguments.overrides.stack);
  const PriceBook prices = read_price_book(arguments.prices);
  std::vector<Diagnostic> warnings;
  ActuatorSettings settings = read_actuator_settings(arguments.config_path, nullptr, {}, warnings);
  const OwnModel own = add_model(arguments.model, settings);
  if (!arguments.data.dataset.empty() && arguments.data.tokenizer.empty() &&
      has_tokenizer(own.folder))
    arguments.data.tokenizer = own.folder;
  if (!arguments.data.dataset.empty() && arguments.entries)
    refuse("--entries", "given beside --data", "one of them: data say how many they are");
  std::optional<CountedData> data;
  if (!arguments.data.dataset.empty()) data = count_data("--data", arguments.data);
  const bool ends = data && data->options.conversation_field.empty() && !data->options.pretokenized;
  if (data && std::all_of(data->lengths.begin(), data->lengths.end(),
                          [eos = ends ? 1 : 0](int64_t length) { return length <= eos; })) {
    refuse("--data", "has no tokens: its texts are empty", "entries with text");
  }
  Question question = question_of(arguments, prices, own, data);
  ResolveOptions options;
  options.own_model = !own.name.empty();
  options.model_path = own.folder;
  Oracle oracle(settings, options, arguments.overrides, catalog);
  OwnEvidence evidence = own_evidence_of(arguments.own, oracle);
  question.gpu_watts = std::move(evidence.gpu_watts);
  const Uncertainty uncertainty(ResidualTable::shipped(), std::move(evidence.residuals));
  oracle.rest_on(uncertainty);
  Recommendation answer = recommend(question, prices, oracle, uncertainty);
  if (data) put_own_inputs(arguments.data, *data, answer.job.inputs);
  const std::string own_model = own.name.empty() ? std::string() : arguments.model;
  print_answer({answer, question, prices, own_model, arguments.overrides.stack,
                arguments.gpus.empty(), words_of_data(arguments.data, arguments.config_path)},
               exports_of(arguments, answer, question, own_model, data), format);
}

void add_options(CLI::App& command, RecommendArguments& arguments) {
  command
      .add_option("--model", arguments.model,
                  "model to tune: of sftbench models, a folder with config.json, or a hub id")
      ->required()
      ->type_name("NAME|DIR|ID");
  command.add_option("--method", arguments.method, "how it is tuned")
      ->type_name("full|lora|qlora|lora-8bit|gptq-lora|pt")
      ->capture_default_str();
  add_dataset_form_options(command, arguments.data, "--dataset,--data");
  command
      .add_option("--entries", arguments.entries,
                  "without a dataset: how many entries of --length tokens there are")
      ->type_name("N")
      ->transform(whole_number(1, 1'000'000'000));
  command.add_option("--length", arguments.length, "tokens that longer entries are cut to")
      ->transform(whole_number(1, 131072))
      ->capture_default_str();
  command
      .add_option("--set", arguments.assignments,
                  "property=value, as of `run`: r=16, target_modules=all-linear, optim=adafactor")
      ->type_name("PROPERTY=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--tokens", arguments.tokens,
                  "train on so many tokens: 50M, 1.5B; of a dataset in as many epochs as it takes")
      ->transform(whole_number(1, kMostTokenCount))
      ->option_text("N");
  command.add_option("--epochs", arguments.epochs, "passes over the data (default: 1)")
      ->check(number(0.001, 10000))
      ->option_text("X=1");
  command
      .add_option("--padding", arguments.padding,
                  "entries of a dataset: padded, or packed (default: the better one)")
      ->check(CLI::IsMember({"longest", "packed"}))
      ->type_name("longest|packed");
  command
      .add_option("--batch", arguments.batch,
                  "entries of an optimization step, over all GPUs; rows under --padding packed")
      ->transform(whole_number(1, 4096))
      ->capture_default_str();
}

void add_limit_options(CLI::App& command, RecommendArguments& arguments) {
  command
      .add_option(
          "--gpus", arguments.gpus,
          "GPUs to choose from, with commas (default: all with a price that is neither of spot "
          "nor of a marketplace)")
      ->type_name("NAME,...");
  CLI::Option* most =
      command.add_option("--max-gpus", arguments.most_gpus, "at most so many of them")
          ->transform(whole_number(1, 32))
          ->capture_default_str();
  command
      .add_option("--own", arguments.owned_gpus,
                  "so many of --gpus are yours: the ranking is by time, without a price")
      ->transform(whole_number(1, 32))
      ->excludes(most)
      ->type_name("N");
  command.add_option("--deadline", arguments.deadline_s, "training ends within: 90m, 6h, 2d")
      ->transform(duration(kLeastSeconds, kMostSeconds))
      ->option_text("DURATION");
  command
      .add_option("--budget", arguments.budget, "training costs at most, in the book's currency")
      ->check(above_zero())
      ->type_name("X");
  add_price_book_option(command, arguments.prices);
  command.add_flag("--allow-tight", arguments.allow_tight,
                   "also what fits so tightly that it may die");
  command
      .add_option("--max-oom-risk", arguments.most_risk,
                  "only what runs out of memory with at most this probability")
      ->type_name("P%");
  add_evidence_option(command, arguments.own);
  arguments.overrides.stack = kPeoplesStack;
  add_machine_options(command, arguments.overrides);
  command
      .add_option("--config", arguments.config_path,
                  "actuator configuration (ado's format); its model_map adds models")
      ->type_name("FILE");
  add_export_option(command, arguments.exports);
  command.add_option("--format", arguments.format, "table, json, jsonl, csv or md")
      ->capture_default_str();
}

}  // namespace

void add_recommend_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand(
      "recommend", "which GPUs train a model on a dataset: the cheapest and the fastest");
  const auto arguments = std::make_shared<RecommendArguments>();
  add_options(*command, *arguments);
  add_limit_options(*command, *arguments);
  command->footer(R"(
All is predicted, nothing is measured. Nine of ten runs are expected within
90_%_of_hours, and oom_% is the probability that one runs out of memory.
The exit status is 0 when something fits, and 3 when nothing does.

Examples:
  sftbench recommend --model llama3.1-8b --method lora --entries 50000
  sftbench recommend --model llama3.1-8b --dataset mine.jsonl \
    --text-field text --deadline 6h --budget 200
  sftbench recommend --model llama3.1-70b --entries 10000 \
    --gpus H100,A100-80G --max-gpus 32 --format json
  sftbench recommend --model llama3.1-8b --entries 10000 --gpus RTX-3090 --own 2)");
  command->callback([arguments, &exit_code] {
    recommend(*arguments);
    exit_code = 0;
  });
}

}  // namespace sftbench
