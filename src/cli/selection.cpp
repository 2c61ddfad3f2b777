#include "cli/selection.h"

#include "cli/arguments.h"
#include "cli/fitting_batch.h"
#include "cli/own_training.h"
#include "cli/quantized_method.h"

#include <algorithm>
#include <charconv>

#include "cli/number_checks.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/plan/space_mixtures.h"
#include "sftbench/translate/file_kind.h"

namespace sftbench {
namespace {

constexpr int64_t kMostProcesses = 65536;
constexpr int64_t kShown = 5;  // entities that an error message lists

[[noreturn]] void fail(std::string key, std::string message, std::string expected = {},
                       std::string nearest = {}) {
  throw InputError(
      {{{}, 0, std::move(key), std::move(message), std::move(expected), std::move(nearest)}});
}

// A plain number is an index; everything else an id (an id never is a number: it starts with a
// property).
std::optional<int64_t> as_index(const std::string& text) {
  int64_t index = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  if (error != std::errc() || end != text.data() + text.size() || text.empty()) return std::nullopt;
  return index;
}

std::string first_entities(const Space& space) {
  std::string list;
  const int64_t count = space.entity_count();
  for (int64_t i = 0; i < std::min(count, kShown); ++i) {
    list += "\n  --entity " + std::to_string(i) + "  (" + entity_id(space.entity(i)) + ")";
  }
  if (count > kShown) list += "\n  ... all of them: sftbench expand " + space.origin;
  return list;
}

int64_t require_entities(const Space& space) {
  const int64_t count = space.entity_count();
  if (count == 0) fail("entitySpace", "has no entity: a range holds no value", "lower < upper");
  return count;
}

std::string choose(const std::string& key, const std::string& given, const std::string& from_file,
                   const std::string& otherwise, const std::vector<std::string>& known) {
  if (given.empty()) return from_file.empty() ? otherwise : from_file;
  if (std::find(known.begin(), known.end(), given) != known.end()) return given;
  fail(key, "unknown value '" + given + "'", join(known, " or "), nearest_spelling(given, known));
}

template <Named Kind>
Kind choose(const std::string& key, const std::string& given, const std::string& from_file,
            Kind otherwise) {
  return named<Kind>(choose(key, given, from_file, name_of(otherwise), names_of<Kind>()));
}

}  // namespace

void add_selection_options(CLI::App& command, Selection& selection) {
  command.add_option("SPACE", selection.space_path, "discovery space file (ado's format)")
      ->type_name("FILE");
  command
      .add_option("--set", selection.assignments,
                  "property=value; replaces a domain or a parameterization")
      ->type_name("PROPERTY=VALUE")
      ->allow_extra_args(false);
  CLI::Option* experiment =
      command.add_option("--experiment", selection.experiment,
                         "experiment to measure with: its name, or the beginning of it; with "
                         "--set, no SPACE is needed");
  experiment->type_name("ID");
  command
      .add_option("--method", selection.experiment,
                  "the experiment that tunes so; lora-8bit for predict")
      ->each([&selection](const std::string&) { selection.experiment_option = "--method"; })
      ->excludes(experiment)
      ->type_name("full|lora|qlora|lora-8bit|gptq-lora|pt");
  command
      .add_option("--model", selection.model,
                  "train this model: a folder with config.json, safetensors and tokenizer.json, or "
                  "a hub id; without a SPACE, what is not set has defaults")
      ->type_name("DIR|ID");
  command
      .add_option("--arguments", selection.arguments_paths,
                  "JSON or YAML file of training arguments, as transformers, trl, accelerate, "
                  "fms-hf-tuning, LLMForge, LLaMA-Factory or axolotl name them; of several, what a "
                  "later one "
                  "says comes first; options and --set come before all")
      ->type_name("FILE")
      ->allow_extra_args(false);
  command
      .add_option("--deepspeed", selection.deepspeed_path,
                  "ds_config.json of DeepSpeed: stages of ZeRO are sharding strategies, \"auto\" "
                  "leaves a value to the other arguments")
      ->type_name("FILE");
  add_argument_options(command, selection.arguments);
  command
      .add_option("--entity", selection.entity, "one entity of the space: its index (from 0) or id")
      ->type_name("N|ID");
  command.add_option("--config", selection.config_path, "actuator configuration (ado's format)")
      ->type_name("FILE");
  command
      .add_option("--ado-ids", selection.ado_ids,
                  "ids to write: as ado from 1.8 on (the default), or as ado up to 1.7 in the "
                  "order of the space; both are read")
      ->type_name("1.7|1.8");
  command
      .add_option("--weights", selection.weights,
                  "auto: the model's files; random: drawn from the seed")
      ->type_name("auto|random");
  command
      .add_option(
          "--padding", selection.padding,
          "pad to the longest entry of a micro-batch, to model_max_length, or not at all: entries "
          "one behind the other, as they come or packed to fill model_max_length")
      ->type_name("longest|max_length|none|packed");
  command.add_flag("--largest-batch-first", selection.worst_batch_first,
                   "train on the largest batch of the run in its first step, so that a run that "
                   "will be out of memory is so at once");
  command
      .add_option("--stop-at-precision", selection.stop_when_known,
                  "end a run when its tokens per second are known within so many percent (95 %), "
                  "behind a step of warm-up and at least 8 more; 0: never")
      ->check(number(0, 50))
      ->option_text("PERCENT=0");
  command.add_option("--ranks", selection.ranks, "CPU ranks when number_gpus is 0")
      ->transform(whole_number(1, kMostProcesses))
      ->option_text("N");
  command.add_option("--threads", selection.threads, "threads per rank; 0: all cores")
      ->transform(whole_number(0, kMostProcesses))
      ->option_text("N");
  command
      .add_option("--gradient-sync", selection.gradient_sync,
                  "with several ranks and micro-batches: reduce gradients once, after the last, or "
                  "those of each, so that under FSDP no rank ever holds whole gradients")
      ->type_name("last|each");
  command
      .add_option("--reduce-dtype", selection.reduce_dtype,
                  "reduce gradients in this type instead of the one they are computed in")
      ->type_name("float32|bfloat16");
  command
      .add_option("--communication-timeout", selection.communication_timeout_s,
                  "time until ranks must have met, and for each operation among them")
      ->transform(duration(kLeastSeconds, kMostSeconds))
      ->option_text("DURATION=10m");
}

std::string full_experiment_name(const Catalog& catalog, const std::string& option,
                                 const std::string& given) {
  if (given.empty() || catalog.experiment(given) != nullptr) return given;
  std::vector<std::string> fitting, methods;
  for (const std::string& name : catalog.experiment_names()) {
    constexpr std::string_view kBefore = "finetune_", kBehind = "_benchmark-";
    if (name.starts_with(given + std::string(kBehind))) return name;
    if (name.starts_with(kBefore)) {
      methods.push_back(name.substr(kBefore.size(), name.find(kBehind) - kBefore.size()));
      if (methods.back() == given) return name;
    }
    if (name.starts_with(given)) fitting.push_back(name);
  }
  if (fitting.empty() && option.ends_with("method")) (void)experiment_of_method(given);
  // Of the long names, a misspelled short one is far.
  if (const std::string nearest = nearest_spelling(given, methods);
      fitting.empty() && !nearest.empty()) {
    throw InputError({{{},
                       0,
                       option,
                       "unknown experiment '" + given + "'",
                       "one of " + join(methods) + ", or a whole name",
                       nearest}});
  }
  if (fitting.size() > 1) {
    throw InputError({{{},
                       0,
                       option,
                       "'" + given + "' is the beginning of several names",
                       "more of one of " + join(fitting),
                       {}}});
  }
  return fitting.empty() ? given : fitting.front();
}

std::string run_command(const Selection& selection) {
  std::string command = "sftbench run";
  const auto add = [&command](const std::string& option, const std::string& value) {
    if (value.empty()) return;
    if (!option.empty()) command += " " + option;
    command += " " + shell_quoted(value);
  };
  const Selection defaults;
  const auto number = [&add](const char* option, auto value, auto usual) {
    if (value != usual) add(option, json_text(Json(value)));
  };
  add("", selection.space_path);
  add("--experiment", selection.experiment);
  add("--entity", selection.entity);
  add("--model", selection.model);
  for (const std::string& path : selection.arguments_paths) add("--arguments", path);
  add("--deepspeed", selection.deepspeed_path);
  for (const auto& [option, text] : selection.arguments) {
    if (option->type == nullptr) {
      command += std::string(" ") + option->option;
    } else {
      add(option->option, text);
    }
  }
  for (const std::string& assignment : selection.assignments) add("--set", assignment);
  add("--config", selection.config_path);
  add("--ado-ids", selection.ado_ids);
  add("--weights", selection.weights);
  add("--padding", selection.padding);
  add("--gradient-sync", selection.gradient_sync);
  add("--reduce-dtype", selection.reduce_dtype);
  number("--ranks", selection.ranks, defaults.ranks);
  number("--threads", selection.threads, defaults.threads);
  number("--stop-at-precision", selection.stop_when_known, defaults.stop_when_known);
  number("--communication-timeout", selection.communication_timeout_s,
         defaults.communication_timeout_s);
  if (selection.worst_batch_first) command += " --largest-batch-first";
  return command;
}

// --set method=NAME is --method NAME.
static Selection with_method(Selection selection) {
  const std::string head = "method=";
  for (const std::string& assignment : selection.assignments) {
    if (!assignment.starts_with(head)) continue;
    if (const std::string& other = selection.experiment_option; !selection.experiment.empty())
      fail("--set method", other == "--set method" ? "given twice" : "is given beside " + other,
           "one of them");
    selection.experiment = assignment.substr(head.size());
    selection.experiment_option = "--set method";
  }
  std::erase_if(selection.assignments,
                [&head](const std::string& assignment) { return assignment.starts_with(head); });
  return selection;
}

LoadedSpace load_space(const Selection& given) {
  const Selection selection = with_method(given);
  const Catalog& catalog = Catalog::shipped();
  LoadedSpace loaded;
  if (!selection.space_path.empty()) refuse_other_kind("SPACE", selection.space_path, "SPACE");
  if (!selection.config_path.empty()) {
    refuse_other_kind("--config", selection.config_path, "--config");
  }
  // What the models that --config adds are, and where datasets of the hub are, is known before the
  // space is.
  std::vector<Diagnostic> unused;
  const ActuatorSettings configured =
      read_actuator_settings(selection.config_path, nullptr, {}, unused);
  OwnTraining own =
      own_training(selection, {configured.hf_home,
                               selection.measures && (selection.fetch || configured.fetch_weights),
                               selection.shows_progress});
  if (const QuantizedMethod* method = find_quantized_method(own.experiment)) {
    if (!selection.predicts) require_trained(*method);
    own.experiment = kQloraExperiment;
    loaded.quantized = method;
  }
  const std::string experiment =
      full_experiment_name(catalog, selection.experiment_option, own.experiment);
  // The models that --config adds are part of the space's domains; those of the space itself it
  // adds on its own.
  const std::string ids = choose("--ado-ids", selection.ado_ids, {}, "1.8", {"1.7", "1.8"});
  SpaceOptions options{selection.assignments,       std::move(own.values),    experiment,
                       selection.experiment_option, configured.model_names(), *ado_ids_named(ids)};
  if (!own.model.name.empty()) options.extra_models.push_back(own.model.name);
  if (!selection.space_path.empty()) {
    loaded.space = read_space_file(selection.space_path, catalog, options);
  } else if (!experiment.empty()) {
    loaded.space = space_from_assignments(catalog, options);
  } else {
    fail({}, "no space is given",
         "a SPACE file, --experiment ID with --set property=value, or --model DIR");
  }
  check_mixtures(loaded.space);
  loaded.warnings = loaded.space.warnings;
  const auto& inline_parameters = loaded.space.actuator_configuration;
  loaded.settings = read_actuator_settings(selection.config_path,
                                           inline_parameters ? &*inline_parameters : nullptr,
                                           loaded.space.origin, loaded.warnings);
  if (!own.model.name.empty()) {
    add_to_model_map(own.model, loaded.settings);
    loaded.own_model = true;
    loaded.model_path = own.model.folder;
  }
  loaded.file = std::move(own.file);
  if (own.fits_batch) {
    fit_batch(loaded, selection, options.given);
    loaded.space = space_from_assignments(catalog, options);
  }
  return loaded;
}

std::optional<int64_t> chosen_entity(const Space& space, const Selection& selection) {
  if (selection.entity.empty()) return std::nullopt;
  const int64_t count = require_entities(space);
  if (const std::optional<int64_t> index = as_index(selection.entity)) {
    if (*index >= 0 && *index < count) return index;
    fail("--entity", "there is no entity " + selection.entity, "0 to " + std::to_string(count - 1));
  }
  if (const std::optional<int64_t> index = space.find(selection.entity)) return index;
  fail("--entity", "no entity has the id '" + selection.entity + "'",
       "one of" + first_entities(space));
}

MeasurementRequest choose_request(const Space& space, const Selection& selection) {
  const int64_t count = require_entities(space);
  const std::optional<int64_t> chosen = chosen_entity(space, selection);
  if (!chosen && count > 1) {
    fail({}, "the space has " + std::to_string(count) + " entities and one is measured",
         "a choice:" + first_entities(space));
  }
  if (space.experiments.size() > 1) {
    std::string list;
    for (const ExperimentReference& reference : space.experiments) {
      list += "\n  --experiment " + experiment_id(reference);
    }
    fail({},
         "the space has " + std::to_string(space.experiments.size()) +
             " experiments and one is measured",
         "a choice:" + list);
  }
  return make_request(space.entity(chosen.value_or(0)), space.experiments.front());
}

ResolveOptions resolve_options(const LoadedSpace& loaded, const Selection& selection) {
  const Space& space = loaded.space;
  ResolveOptions options;
  options.hf_home = loaded.settings.hf_home;
  options.own_model = loaded.own_model;
  options.model_path = loaded.model_path;
  options.decodes_mxfp4 = loaded.file.decodes_mxfp4;
  options.weights =
      choose("--weights", selection.weights, space.weights, options.weights, {"auto", "random"});
  options.padding =
      choose("--padding", selection.padding.empty() ? loaded.file.padding : selection.padding,
             space.padding, options.padding);
  options.worst_batch_first = selection.worst_batch_first;
  options.stop_when_known = selection.stop_when_known;
  options.gradient_sync =
      choose("--gradient-sync", selection.gradient_sync, {}, options.gradient_sync);
  options.reduce_dtype = choose("--reduce-dtype", selection.reduce_dtype, {}, options.reduce_dtype,
                                {"float32", "bfloat16"});
  options.communication_timeout_s = selection.communication_timeout_s;
  options.cpu_ranks = cpu_ranks(selection, loaded.file);
  options.threads = selection.threads;
  return options;
}

}  // namespace sftbench
