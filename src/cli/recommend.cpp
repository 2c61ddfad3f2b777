#include "cli/recommend.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/dataset_lengths.h"
#include "cli/definition_list.h"
#include "cli/evidence_option.h"
#include "cli/number_checks.h"
#include "cli/own_training.h"
#include "cli/price_options.h"
#include "cli/record.h"
#include "cli/rounding.h"
#include "sftbench/advise/recommend.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

struct RecommendArguments {
  std::string model, method = "lora";
  DatasetLengths data;
  std::optional<int64_t> entries;
  int64_t length = 2048, batch = 32, most_gpus = 8;
  double epochs = 1;
  std::string gpus, deadline, prices, config_path, format = "table";
  std::optional<double> budget;
  bool allow_tight = false;
  std::string most_risk, own;  // --max-oom-risk, --evidence
  MachineOverrides overrides;
};

[[noreturn]] void refuse(const std::string& key, const std::string& found,
                         const std::string& expected, const std::string& nearest = {}) {
  throw InputError({{{}, 0, key, found, expected, nearest}});
}

// "6h", "90m", "2d" or "3600s".
double seconds_of(const std::string& text) {
  const std::string expected = "a number with s, m, h or d, above 0: 6h";
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string unit(end, static_cast<size_t>(text.data() + text.size() - end));
  const std::vector<std::pair<std::string, double>> units = {
      {"s", 1}, {"m", 60}, {"h", 3600}, {"d", 86400}};
  for (const auto& [name, seconds] : units) {
    if (error == std::errc() && unit == name && number > 0 && number * seconds <= kMostSeconds)
      return number * seconds;
  }
  refuse("--deadline", "found '" + text + "'", expected);
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

const Experiment& experiment_of(const std::string& method) {
  std::vector<std::string> methods;
  for (const Experiment& experiment : Catalog::shipped().experiments) {
    if (experiment.runs > 1) continue;
    methods.emplace_back(name_of(experiment.tuning));
    if (methods.back() == method) return experiment;
  }
  refuse("--method", "unknown method '" + method + "'", join(methods, " or "),
         nearest_spelling(method, methods));
}

std::vector<std::string> gpus_of(const std::string& list, const PriceBook& prices) {
  const GpuCatalog& catalog = Catalog::shipped().gpus;
  std::vector<std::string> gpus;
  if (list.empty()) {
    for (const auto& [gpu, price] : prices.prices) gpus.push_back(gpu);
    return gpus;
  }
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string name(trimmed(std::string_view(list).substr(begin, end - begin)));
    const GpuFacts* gpu = catalog.find(name);
    if (gpu == nullptr) {
      refuse("--gpus", "unknown GPU '" + name + "'",
             "names of config/gpus.yaml: its peak, memory and bandwidth are needed",
             nearest_spelling(name, catalog.names()));
    }
    if (std::count(gpus.begin(), gpus.end(), gpu->name) == 0) gpus.push_back(gpu->name);
    begin = end + 1;
  }
  return gpus;
}

Workload workload_of(const RecommendArguments& arguments) {
  Workload work;
  work.model_max_length = arguments.length;
  work.epochs = arguments.epochs;
  if (!arguments.data.dataset.empty() && arguments.entries) {
    refuse("--entries", "given beside --dataset", "one of them: a dataset says how many it has");
  }
  if (!arguments.data.dataset.empty()) {
    work.lengths = lengths_of(arguments.data);
    work.entries = static_cast<int64_t>(work.lengths.size());
    return work;
  }
  if (!arguments.entries) {
    refuse("--dataset", "not given", "a file of entries, or --entries N with --length L");
  }
  work.entries = *arguments.entries;
  return work;
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
  const OwnModel own = own_model("--model", given);
  add_to_model_map(own, settings);
  return own;
}

Question question_of(const RecommendArguments& arguments, const PriceBook& prices,
                     const OwnModel& own) {
  Question question;
  question.experiment = &experiment_of(arguments.method);
  question.model = own.name.empty() ? arguments.model : own.name;
  question.gpus = gpus_of(arguments.gpus, prices);
  question.batch = arguments.batch;
  question.most_gpus = arguments.most_gpus;
  if (!arguments.deadline.empty()) question.deadline_s = seconds_of(arguments.deadline);
  question.budget = arguments.budget;
  question.allow_tight = arguments.allow_tight;
  if (!arguments.most_risk.empty()) question.most_risk = share_of(arguments.most_risk);
  question.workload = workload_of(arguments);
  return question;
}

// --- the answer -----------------------------------------------------------------------------------

Json price_per_million(const Option& option, double tokens) {
  return option.cost ? Json(short_figure(*option.cost / tokens * 1e6)) : Json();
}

Json as_json(const Option& option, double tokens) {
  return {{"gpu", option.gpu},
          {"gpus", option.gpus},
          {"nodes", option.nodes},
          {"context_parallel", option.context_ranks},
          {"batch_per_gpu", option.batch_per_gpu},
          {"gradient_accumulation_steps", option.accumulation},
          {"gradient_checkpointing", option.checkpointing},
          {"hours", option.hours},
          {"hours_interval", option.time_interval.residuals > 0
                                 ? Json({{"low", option.hours_range.low},
                                         {"high", option.hours_range.high},
                                         {"level", 0.9},
                                         {"measurements", option.time_interval.residuals},
                                         {"basis", option.time_interval.basis}})
                                 : Json()},
          {"step_seconds", option.step_s},
          {"cost", option.cost ? Json(*option.cost) : Json()},
          {"cost_per_million_tokens", price_per_million(option, tokens)},
          {"memory_bytes", option.needed_bytes},
          {"memory_interval_bytes", {option.memory_range.low, option.memory_range.high}},
          {"memory_available_bytes", option.memory_bytes},
          {"out_of_memory_risk", option.memory_risk ? Json(*option.memory_risk) : Json()},
          {"verdict", name_of(option.fit)},
          {"inputs", option.inputs}};
}

// "1.2 to 1.6".
Json hours_text(const Option& option) {
  if (option.time_interval.residuals == 0) return {};
  return cell_text(short_figure(option.hours_range.low)) + " to " +
         cell_text(short_figure(option.hours_range.high));
}

void put_row(const std::string& choice, const Option& option, double tokens, Table& table) {
  table.rows.push_back(
      {choice, option.gpu, option.gpus, option.context_ranks, option.batch_per_gpu,
       option.accumulation, option.checkpointing, short_figure(option.hours), hours_text(option),
       option.cost ? Json(short_figure(*option.cost)) : Json(), price_per_million(option, tokens),
       rounded_to(option.needed_bytes / kGiB, 10),
       option.memory_risk ? Json(rounded_to(100 * *option.memory_risk, 10)) : Json(),
       name_of(option.fit)});
}

Table table_of(const Recommendation& answer, double tokens, const std::string& currency) {
  Table table{{"choice", "gpu", "gpus", "context_parallel", "batch_per_gpu", "accumulation",
               "checkpointing", "hours", "90_%_of_hours", "cost_" + currency,
               currency + "_per_Mtoken", "memory_GiB", "dies_%", "verdict"},
              {}};
  if (answer.cheapest) put_row("cheapest", *answer.cheapest, tokens, table);
  if (answer.fastest) put_row("fastest", *answer.fastest, tokens, table);
  for (const Option& option : answer.alternatives) put_row("alternative", option, tokens, table);
  for (const Option& option : answer.front) put_row("front", option, tokens, table);
  return table;
}

Json all_as_json(const Recommendation& answer, const Question& question, const PriceBook& prices) {
  const double tokens = question.workload.tokens();
  const auto list = [tokens](const std::vector<Option>& options) {
    Json all = Json::array();
    for (const Option& option : options) all.push_back(as_json(option, tokens));
    return all;
  };
  Json ruled_out = Json::array();
  for (const RuledOut& out : answer.ruled_out)
    ruled_out.push_back({{"reason", out.reason}, {"options", out.options}});
  Json book = Json::array();
  for (const auto& [gpu, price] : prices.prices) {
    book.push_back({{"gpu", gpu},
                    {"per_hour", price.per_hour},
                    {"kind", price.kind},
                    {"region", price.region},
                    {"date", price.date},
                    {"mark", price.mark}});
  }
  return {{"prediction", true},
          {"experiment", question.experiment->identifier},
          {"model", question.model},
          {"entries", question.workload.entries},
          {"tokens", tokens},
          {"cheapest", answer.cheapest ? as_json(*answer.cheapest, tokens) : Json()},
          {"fastest", answer.fastest ? as_json(*answer.fastest, tokens) : Json()},
          {"front", list(answer.front)},
          {"alternatives", list(answer.alternatives)},
          {"reasons", answer.reasons},
          {"considered", answer.considered},
          {"ruled_out", std::move(ruled_out)},
          {"prices", {{"file", prices.file}, {"currency", prices.currency}, {"book", book}}}};
}

// What measures it: ten steps tell more than any prediction.
std::string command_of(const Option& option, const Question& question,
                       const std::string& own_model) {
  std::string command = "sftbench run --experiment " + question.experiment->identifier;
  if (!own_model.empty()) command += " --model " + own_model;
  for (const auto& [name, value] : option.inputs.items()) {
    if (name == "model_name" && !own_model.empty()) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
    command += " --set " + name + "=" + text;
  }
  return command + " --set max_steps=10";
}

void print_reasons(const Recommendation& answer, const Question& question, const PriceBook& prices,
                   const std::string& own_model) {
  const Option& best = answer.cheapest ? *answer.cheapest : *answer.fastest;
  Definitions lines;
  for (const std::string& reason : answer.reasons) {
    lines.emplace_back(lines.empty() ? "why" : "", reason);
  }
  for (const RuledOut& out : answer.ruled_out) {
    lines.emplace_back("ruled out", std::to_string(out.options) + " of " +
                                        std::to_string(answer.considered) + ": " + out.reason);
  }
  if (const Price* price = prices.find(best.gpu)) {
    lines.emplace_back("price", cell_text(price->per_hour) + " " + prices.currency + "/h: " +
                                    price->source + ", " + price->region + ", " + price->date +
                                    (price->mark == "recalled" ? "; recalled, check it" : ""));
  }
  if (best.time_interval.residuals > 0)
    lines.emplace_back("interval", "rests on " + basis_text(best.time_interval));
  lines.emplace_back("measure it", command_of(best, question, own_model));
  std::fputs(("\n" + definition_list(lines)).c_str(), stdout);
}

void recommend(const RecommendArguments& arguments) {
  const OutputFormat format = output_format(arguments.format);
  const Catalog& catalog = Catalog::shipped();
  StackModel::named(arguments.overrides.stack);
  const PriceBook prices = read_price_book(arguments.prices);
  std::vector<Diagnostic> warnings;
  ActuatorSettings settings = read_actuator_settings(arguments.config_path, nullptr, {}, warnings);
  const OwnModel own = add_model(arguments.model, settings);
  const Question question = question_of(arguments, prices, own);
  ResolveOptions options;
  options.own_model = !own.name.empty();
  options.model_path = own.folder;
  Oracle oracle(settings, options, arguments.overrides, catalog);
  const Recommendation answer =
      recommend(question, prices, oracle, uncertainty_with(arguments.own, oracle));
  if (format == OutputFormat::kJson || format == OutputFormat::kJsonLines) {
    print_record({}, all_as_json(answer, question, prices), format);
    return;
  }
  print_table(table_of(answer, question.workload.tokens(), prices.currency), format);
  std::fflush(stdout);
  if (format == OutputFormat::kTable)
    print_reasons(answer, question, prices, own.name.empty() ? "" : arguments.model);
}

void add_options(CLI::App& command, RecommendArguments& arguments) {
  command
      .add_option("--model", arguments.model,
                  "model to tune: of sftbench models, a folder with config.json, or a hub id")
      ->required()
      ->type_name("NAME|DIR|ID");
  command.add_option("--method", arguments.method, "how it is tuned")
      ->type_name("full|lora|gptq-lora|pt")
      ->capture_default_str();
  add_dataset_length_options(command, arguments.data);
  command
      .add_option("--entries", arguments.entries,
                  "without a dataset: how many entries of --length tokens there are")
      ->type_name("N")
      ->transform(whole_number(1, 1'000'000'000));
  command.add_option("--length", arguments.length, "tokens that longer entries are cut to")
      ->transform(whole_number(1, 131072))
      ->capture_default_str();
  command.add_option("--epochs", arguments.epochs, "passes over the data")
      ->check(number(0.001, 10000))
      ->capture_default_str();
  command.add_option("--batch", arguments.batch, "entries of an optimization step, over all GPUs")
      ->transform(whole_number(1, 4096))
      ->capture_default_str();
}

void add_limit_options(CLI::App& command, RecommendArguments& arguments) {
  command
      .add_option("--gpus", arguments.gpus,
                  "GPUs to choose from, with commas (default: all that have a price)")
      ->type_name("NAME,...");
  command.add_option("--max-gpus", arguments.most_gpus, "at most so many of them")
      ->transform(whole_number(1, 32))
      ->capture_default_str();
  command.add_option("--deadline", arguments.deadline, "training ends within: 90m, 6h, 2d")
      ->type_name("TIME");
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
  command.add_option("--stack", arguments.overrides.stack, "what trains")
      ->type_name("sftbench|fms-hf-tuning")
      ->capture_default_str();
  command
      .add_option("--config", arguments.config_path,
                  "actuator configuration (ado's format); its model_map adds models")
      ->type_name("FILE");
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
90_%_of_hours, and dies_% is the probability that one runs out of memory.

Examples:
  sftbench recommend --model llama3.1-8b --method lora --entries 50000
  sftbench recommend --model llama3.1-8b --dataset mine.jsonl \
    --text-field text --deadline 6h --budget 200
  sftbench recommend --model llama3.1-70b --entries 10000 \
    --gpus H100,A100-80G --max-gpus 32 --format json)");
  command->callback([arguments, &exit_code] {
    recommend(*arguments);
    exit_code = 0;
  });
}

}  // namespace sftbench
