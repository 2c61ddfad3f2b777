#include "cli/models.h"

#include <memory>
#include <set>
#include <string>

#include "cli/catalog_table.h"
#include "cli/definition_list.h"
#include "cli/fitting_models.h"
#include "cli/number_checks.h"
#include "cli/record.h"
#include "cli/rounding.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/families/family.h"
#include "sftbench/plan/support.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

// The first of these keys that a config has: families spell the same size differently.
Json first_of(const Json& config, std::initializer_list<const char*> keys) {
  const Json& text =
      config.is_object() && config.contains("text_config") ? config["text_config"] : config;
  for (const char* key : keys) {
    if (text.is_object() && text.contains(key)) return text[key];
  }
  return nullptr;
}

Json layers(const Json& config) {
  return first_of(config, {"num_hidden_layers", "n_layer"});
}
Json hidden(const Json& config) {
  return first_of(config, {"hidden_size", "n_embd"});
}
Json heads(const Json& config) {
  return first_of(config, {"num_attention_heads", "n_head"});
}

Json parameters(const ModelFacts& model) {
  return model.hf_config.is_null() ? Json(nullptr) : Json(parameter_count(model.hf_config));
}

// Whether this version trains its family, as far as the catalog knows it: as `expand` and `run`
// decide it.
bool trains(const ModelFacts& model) {
  return !model.family.empty() && trains_family(model.family);
}

// Without these facts shapes and random weights need the model's own files.
bool has_architecture(const ModelFacts& model) {
  return !model.hf_config.is_null();
}

// "yes", "files": from its files alone, "no".
std::string trains_text(const ModelFacts& model) {
  if (!trains(model)) return "no";
  return has_architecture(model) ? "yes" : "files";
}

// 8030261248 -> "8.03 B"
std::string in_billions(int64_t count) {
  char text[32];
  const double value = static_cast<double>(count);
  if (count >= 1'000'000'000) {
    std::snprintf(text, sizeof text, "%.4g B", value / 1e9);
  } else {
    std::snprintf(text, sizeof text, count >= 1'000'000 ? "%.4g M" : "%.4g K",
                  value / (count >= 1'000'000 ? 1e6 : 1e3));
  }
  return text;
}

// The hub id where there is one, since a path of ado's cluster is rarely at hand.
std::string main_place(const ModelFacts& model) {
  const auto vanilla = model.weights.find("Vanilla");
  return vanilla == model.weights.end() ? std::string() : vanilla->second.back();
}

// Of the overview.
constexpr size_t kName = 0, kParameters = 5, kTrains = 6, kPlace = 8;

Table overview(const ModelCatalog& catalog) {
  Table table{
      {"model", "family", "layers", "hidden", "heads", "parameters", "trains", "facts", "weights"},
      {}};
  for (const ModelFacts& model : catalog.models()) {
    table.rows.push_back({model.name, model.family, layers(model.hf_config),
                          hidden(model.hf_config), heads(model.hf_config), parameters(model),
                          trains(model), to_string(model.confidence), main_place(model)});
  }
  return table;
}

// JSON alone has truth values, beside which architecture_known stands.
void put_words(const ModelCatalog& catalog, Table& table) {
  for (std::vector<Json>& row : table.rows)
    row[kTrains] = trains_text(*catalog.find(row[kName].get<std::string>()));
}

// As people read the cells.
void shorten(Table& table) {
  constexpr size_t kColumns = 50;
  for (std::vector<Json>& row : table.rows) {
    Json& count = row[kParameters];
    if (count.is_number()) count = in_billions(count.get<int64_t>());
    const auto place = row.back().get<std::string>();
    if (place.size() > kColumns) row.back() = place.substr(0, kColumns - 3) + "...";
  }
}

Json as_json(const ModelFacts& model) {
  Json less_sure = Json::object();
  for (const auto& [key, level] : model.less_sure) less_sure[key] = to_string(level);
  Json json = {{"name", model.name},
               {"family", model.family},
               {"in_entity_space", model.in_entity_space},
               {"parameters", parameters(model)},
               {"trains", trains(model)},
               {"architecture_known", has_architecture(model)},
               {"published", nullptr},
               {"weights", model.weights},
               {"lora_targets", model.lora_targets},
               {"gptq_lora_targets", model.gptq_lora_targets},
               {"facts", to_string(model.confidence)},
               {"less_sure", less_sure},
               {"sources", model.sources},
               {"note", model.note},
               {"config", model.hf_config}};
  if (model.published) {
    json["published"] = {{"parameters", model.published->text},
                         {"mark", to_string(model.published->confidence)},
                         {"source", model.published->source}};
  }
  return json;
}

std::string in_full(const ModelFacts& model) {
  Definitions facts = {{"family", model.family}};
  if (!model.hf_config.is_null()) {
    const int64_t count = parameter_count(model.hf_config);
    facts.emplace_back("parameters", std::to_string(count) + " (" + in_billions(count) + ")");
  }
  facts.emplace_back(
      "trains", !trains(model) ? "no, predict and recommend alone know it: this version "
                                 "trains " +
                                     join(known_model_types())
                : has_architecture(model) ? "yes"
                                          : "from its files alone: its architecture is not "
                                            "published, so recommend, predict and --weights random "
                                            "need a folder with its config.json (--model DIR, or "
                                            "model_map in --config)");
  if (model.published) {
    facts.emplace_back("published count", model.published->text + ", " +
                                              std::string(to_string(model.published->confidence)) +
                                              " in: " + model.published->source);
  }
  for (const auto& [format, places] : model.weights) facts.emplace_back(format, join(places, "\n"));
  if (!model.lora_targets.empty()) facts.emplace_back("LoRA targets", join(model.lora_targets));
  if (!model.gptq_lora_targets.empty())
    facts.emplace_back("GPTQ-LoRA targets", join(model.gptq_lora_targets));
  if (!model.in_entity_space) facts.emplace_back("listed", "not in the experiments' entity spaces");
  facts.emplace_back(
      "facts", std::string(to_string(model.confidence)) + " in:\n" + join(model.sources, "\n"));
  if (!model.note.empty()) facts.emplace_back("note", model.note);

  std::string text = model.name + "\n" + definition_list(facts);
  if (model.hf_config.is_null()) return text;
  Definitions config;
  for (const auto& [key, value] : model.hf_config.items()) {
    const auto mark = model.less_sure.find(key);
    const std::string doubt =
        mark == model.less_sure.end() ? "" : "  (" + std::string(to_string(mark->second)) + ")";
    config.emplace_back(key,
                        (value.is_string() ? value.get<std::string>() : json_text(value)) + doubt);
  }
  return text + "\nconfig.json\n" + definition_list(config);
}

struct ModelsArguments {
  CatalogTableOptions table;
  FittingOptions fits;
  std::string family;
  std::optional<int64_t> least, most;  // parameters

  bool filters() const { return !fits.gpu.empty() || !family.empty() || least || most; }
};

// Those whose names begin so.
std::set<std::string> chosen_families(const std::string& family, const ModelCatalog& catalog) {
  std::set<std::string> known, chosen;
  for (const ModelFacts& model : catalog.models()) known.insert(model.family);
  for (const std::string& name : known)
    if (name.starts_with(family)) chosen.insert(name);
  if (!chosen.empty()) return chosen;
  const std::vector<std::string> names(known.begin(), known.end());
  throw InputError({{{},
                     0,
                     "--family",
                     "unknown family '" + family + "'",
                     "one of " + join(names),
                     nearest_spelling(family, names)}});
}

void keep_sizes(const ModelsArguments& arguments, const ModelCatalog& catalog, Table& table) {
  const std::set<std::string> families = chosen_families(arguments.family, catalog);
  std::erase_if(table.rows, [&](const std::vector<Json>& row) {
    const ModelFacts& model = *catalog.find(row[kName].get<std::string>());
    if (families.count(model.family) == 0) return true;
    if (!arguments.least && !arguments.most) return false;
    const Json& count = row[kParameters];
    if (count.is_null()) return true;
    const auto parameters = count.get<int64_t>();
    return parameters < arguments.least.value_or(0) ||
           parameters > arguments.most.value_or(parameters);
  });
}

void keep_fitting(const FittingOptions& options, Table& table) {
  const std::map<std::string, Fitting> fitting = fitting_models(options);
  std::erase_if(table.rows, [&fitting](const std::vector<Json>& row) {
    return fitting.count(row[kName].get<std::string>()) == 0;
  });
  table.columns.insert(table.columns.begin() + kPlace, {"memory_GiB", "tokens/s"});
  for (std::vector<Json>& row : table.rows) {
    const Fitting& one = fitting.at(row[kName].get<std::string>());
    row.insert(row.begin() + kPlace,
               {rounded_to(one.memory_bytes / kGiB, 10), short_figure(one.tokens_per_s)});
  }
}

void print_models(const ModelsArguments& arguments) {
  const CatalogTableOptions& options = arguments.table;
  const OutputFormat format = output_format(options.format);
  const ModelCatalog& catalog = Catalog::shipped().models;
  const ModelFacts* model = options.word.empty() ? nullptr : catalog.find(options.word);
  if (model != nullptr && !arguments.filters())
    return print_record(in_full(*model), as_json(*model), format);
  Table table = rows_with(options.word, overview(catalog));
  if (!table.rows.empty()) {
    keep_sizes(arguments, catalog, table);
    if (!arguments.fits.gpu.empty()) keep_fitting(arguments.fits, table);
    if (table.rows.empty())
      throw InputError({{{}, 0, {}, "no model is left by these options", "fewer of them", {}}});
  } else {
    throw InputError({{{},
                       0,
                       {},
                       "unknown model '" + options.word + "'",
                       "a model of `sftbench models`",
                       catalog.near(options.word).name}});
  }
  sort_rows(options.sort, table);
  if (format != OutputFormat::kJson && format != OutputFormat::kJsonLines)
    put_words(catalog, table);
  if (format == OutputFormat::kTable || format == OutputFormat::kMarkdown) shorten(table);
  print_table(table, format);
}

}  // namespace

void add_models_command(CLI::App& app, int& exit_code) {
  CLI::App* command = app.add_subcommand("models", "the models that are known, or one in full");
  const auto arguments = std::make_shared<ModelsArguments>();
  add_catalog_table_options(*command, "NAME", "model to show in full, with the source of each fact",
                            arguments->table);
  CLI::Option* fits =
      command
          ->add_option("--fits", arguments->fits.gpu,
                       "only those that one such GPU trains, by prediction, with their memory and "
                       "tokens/s")
          ->type_name("GPU");
  command->add_option("--method", arguments->fits.method, "with --fits: how they are tuned")
      ->needs(fits)
      ->type_name("full|lora|qlora|lora-8bit|gptq-lora|pt")
      ->capture_default_str();
  command->add_option("--length", arguments->fits.length, "with --fits: tokens of a row")
      ->needs(fits)
      ->transform(whole_number(1, 131072))
      ->capture_default_str();
  command->add_option("--family", arguments->family, "only those of families whose names begin so")
      ->type_name("NAME");
  command->add_option("--min-parameters", arguments->least, "only those with at least so many: 1B")
      ->transform(whole_number(1, kMostTokenCount))
      ->option_text("N");
  command->add_option("--max-parameters", arguments->most, "only those with at most so many: 8B")
      ->transform(whole_number(1, kMostTokenCount))
      ->option_text("N");
  command->footer(R"(
Examples:
  sftbench models
  sftbench models qwen --sort parameters
  sftbench models smollm2-135m
  sftbench models --fits RTX-4090 --method qlora --sort parameters
  sftbench models --family llama --max-parameters 8B
  sftbench models --format csv)");
  command->callback([arguments, &exit_code] {
    print_models(*arguments);
    exit_code = 0;
  });
}

}  // namespace sftbench
