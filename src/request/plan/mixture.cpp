#include "plan/mixture.h"

#include <cmath>
#include <map>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/plan/space_mixtures.h"

namespace sftbench {
namespace {

constexpr const char* kDataMixture = "data_mixture";

struct SetProperty {
  const char* field;
  Json::value_t type;
};

const std::map<std::string, SetProperty>& properties_of_set() {
  using Type = Json::value_t;
  static const std::map<std::string, SetProperty> kProperties = {
      {"training_data_path", {"path", Type::string}},
      {"pretokenized", {"pretokenized", Type::boolean}},
      {"conversation_column", {"conversation_field", Type::string}},
      {"data_formatter_template", {"entry_template", Type::string}},
      {"input_column_name", {"input_field", Type::string}},
      {"output_column_name", {"output_field", Type::string}},
      {"dataset_text_field", {"text_field", Type::string}},
      {"sampling", {"share", Type::number_float}},
      {"eval_split", {"held_out", Type::number_float}},
      {"train_split", {"trained", Type::number_float}},
  };
  return kProperties;
}

[[noreturn]] void refuse_mixture(const std::string& message) {
  throw RunError(ReasonCode::kData, std::string(kDataMixture) + ": " + message);
}

bool is_of(Json::value_t type, const Json& value) {
  if (type == Json::value_t::number_float) return value.is_number();
  return value.type() == type;
}

// An entry has one form, as that of one set has (plan/support.cpp).
void check_form(const Json& set, const std::string& place) {
  const auto has = [&set](const char* property) { return set.contains(property); };
  std::vector<std::string> forms;
  if (set.value("pretokenized", false)) forms.emplace_back("pretokenized");
  if (has("conversation_column")) forms.emplace_back("conversation_column");
  if (has("data_formatter_template")) forms.emplace_back("data_formatter_template");
  const bool input = has("input_column_name"), output = has("output_column_name");
  if (input || output) forms.emplace_back("input_column_name and output_column_name");
  if (forms.size() > 1) {
    refuse_mixture(place + ": " + join(forms, " and ") +
                   " each say what an entry is; one of them works");
  }
  if (input != output) {
    refuse_mixture(place + ": " + (input ? "input_column_name" : "output_column_name") +
                   " is given alone; with " + (input ? "output_column_name" : "input_column_name") +
                   " it works");
  }
  if (input && set["input_column_name"] == set["output_column_name"]) {
    refuse_mixture(place + ": input_column_name and output_column_name are both " +
                   set["input_column_name"].get<std::string>() + "; two columns work");
  }
}

void check_set(const Json& set, const std::string& place) {
  if (!set.is_object() || !set.contains("training_data_path")) {
    refuse_mixture(place + " has no training_data_path");
  }
  for (const auto& [name, value] : set.items()) {
    const auto known = properties_of_set().find(name);
    if (known == properties_of_set().end()) {
      std::vector<std::string> names;
      for (const auto& [property, field] : properties_of_set()) names.push_back(property);
      refuse_mixture(place + "." + name + ": no such property; a set has " + join(names));
    }
    if (!is_of(known->second.type, value)) {
      refuse_mixture(place + "." + name + ": found " + json_text(value));
    }
  }
  check_form(set, place);
  const double held_out = set.value("eval_split", 0.0);
  if (!(held_out >= 0 && held_out < 1)) {
    refuse_mixture(place + ".eval_split: found " + json_text(Json(held_out)) +
                   "; expected a number from 0 to below 1");
  }
  const double trained = set.value("train_split", 0.0);
  if (!(trained >= 0 && trained + held_out <= 1 + 1e-9)) {
    refuse_mixture(place + ".train_split: found " + json_text(Json(trained)) +
                   "; expected a share that leaves room for eval_split");
  }
}

// All sets that are trained on have a share, or none has.
void check_shares(const Json& sets) {
  double sum = 0;
  size_t shared = 0, all = 0;
  for (const Json& set : sets) {
    if (set.value("train_split", 1.0) == 0) continue;
    ++all;
    const double share = set.value("sampling", 0.0);
    if (!(share >= 0 && share <= 1)) {
      refuse_mixture("sampling: found " + json_text(Json(share)) +
                     "; expected a share from 0 to 1");
    }
    sum += share;
    shared += share > 0 ? 1 : 0;
  }
  if (shared == 0) return;
  if (shared < all) {
    refuse_mixture("sampling: " + std::to_string(shared) + " of " +
                   counted(all, "set has", "sets have") +
                   " a share; expected one for each set, or none");
  }
  if (std::abs(sum - 1) > 1e-8) {
    const double shown = std::round(sum * 1e9) / 1e9;  // 0.7 and 0.6 add up to 1.3
    refuse_mixture("sampling: the shares add up to " + json_text(Json(shown)) + "; expected 1");
  }
}

}  // namespace

const Json& mixture_sets(const Json& mixture) {
  for (const auto& [key, value] : mixture.items()) {
    if (key != "datasets") refuse_mixture("found " + key + "; expected datasets");
  }
  const auto sets = mixture.find("datasets");
  if (sets == mixture.end() || !sets->is_array() || sets->empty()) {
    refuse_mixture("has no datasets; expected a list of them");
  }
  for (size_t i = 0; i < sets->size(); ++i) {
    check_set((*sets)[i], "datasets[" + std::to_string(i) + "]");
  }
  check_shares(*sets);
  return *sets;
}

namespace {

void check_value(const std::string& property, const Json& value, std::vector<Diagnostic>& wrong) {
  if (property != kDataMixture || !value.is_string() || value == "{}") return;
  try {
    (void)mixture_sets(parse_json(value.get_ref<const std::string&>(), kDataMixture));
  } catch (const RunError& error) {
    const std::string text = error.what();  // begins with the property
    wrong.push_back(
        {{}, 0, kDataMixture, text.substr(std::string(kDataMixture).size() + 2), {}, {}});
  }
}

}  // namespace

void check_mixtures(const Space& space) {
  std::vector<Diagnostic> wrong;
  for (const Dimension& dimension : space.dimensions) {
    for (const Json& value : dimension.listed())
      check_value(dimension.property().identifier, value, wrong);
  }
  for (const ExperimentReference& reference : space.experiments) {
    for (const auto& [property, value] : reference.parameterization)
      check_value(property, value, wrong);
  }
  if (!wrong.empty()) throw InputError(std::move(wrong));
}

std::string mixture_field(const std::string& property) {
  return properties_of_set().at(property).field;
}

}  // namespace sftbench
