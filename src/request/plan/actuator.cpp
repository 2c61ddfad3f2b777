#include "sftbench/plan/actuator.h"

#include <cstdlib>

#include "sftbench/base/file.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/fields.h"

namespace sftbench {
namespace {

const std::vector<std::string> kWeightFormats = {"Vanilla", "GPTQ-Quantized"};
constexpr const char* kGptqOfTheDocuments = "QPTQ-Quantized";

// Lays the parameters of one source over the settings; what the source does not name stays.
class ParameterReader {
 public:
  // `defaults`: nobody asked for what stands there.
  ParameterReader(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                  ActuatorSettings& settings, bool defaults)
      : node_(node),
        fields_(node, path, diagnostics),
        diagnostics_(diagnostics),
        settings_(settings),
        defaults_(defaults) {}

  void read() {
    settings_.match_exact_dependencies =
        fields_.boolean("match_exact_dependencies", settings_.match_exact_dependencies);
    if (const std::string text = fields_.text("output_dir", Presence::kOptional); !text.empty()) {
      settings_.output_dir = text;
    }
    optional_text("data_directory", settings_.data_directory);
    optional_text("aim_db", settings_.aim_db);
    optional_text("aim_dashboard_url", settings_.aim_dashboard_url);
    optional_text("hf_home", settings_.hf_home);
    settings_.fetch_weights = fields_.boolean("fetch_weights", settings_.fetch_weights);
    optional_text("num_tokens_cache_directory", settings_.num_tokens_cache_directory);
    if (const YamlNode* list = fields_.any("trackers", Presence::kOptional)) read_trackers(*list);
    if (const YamlNode* map = fields_.mapping("model_map", Presence::kOptional))
      read_model_map(*map);
    note_without_effect("output_dir", "nothing is kept unless it is asked for",
                        "run --save-model-dir DIR, --checkpoint-dir DIR");
    note_without_effect("aim_db", "this program writes to no Aim repository",
                        "trackers: [aim-info=FILE], or [tensorboard=DIR]");
    if (const YamlNode* cache = fields_.any("cache", Presence::kOptional)) {
      diagnostics_.warning(cache->line, fields_.path("cache"),
                           "is no parameter of the actuator, not used (as in ado)", {},
                           "num_tokens_cache_directory");
    }
    fields_.reject_unknown();
  }

 private:
  void note_without_effect(const std::string& key, const std::string& why,
                           const std::string& instead) {
    const YamlNode* member = node_.find(key);
    if (defaults_ || member == nullptr || member->is_null()) return;
    diagnostics_.warning(member->line, fields_.path(key), "has no effect: " + why, instead);
  }

  // A null that is written down takes a default away.
  void optional_text(const std::string& key, std::optional<std::string>& value) {
    const YamlNode* member = node_.find(key);
    const std::string text = fields_.text(key, Presence::kOptional);
    if (member == nullptr) return;
    value = text.empty() ? std::nullopt : std::optional(text);
  }

  // Those of a later source take the place of all before.
  void read_trackers(const YamlNode& list) {
    settings_.trackers.clear();
    if (list.is_null()) return;
    if (!list.is_sequence()) {
      diagnostics_.error(list, fields_.path("trackers"), "found " + describe(list),
                         "a list of texts, as [tensorboard=DIR, mlflow=http://HOST:PORT]");
      return;
    }
    for (const YamlNode& item : list.items) {
      if (item.is_scalar() && !item.text.empty()) {
        settings_.trackers.push_back(item.text);
      } else {
        diagnostics_.error(item, fields_.path("trackers"), "found " + describe(item),
                           "texts, as tensorboard=DIR");
      }
    }
  }

  void read_model_map(const YamlNode& map) {
    for (const auto& [name, places] : map.members) {
      const std::string path = fields_.path("model_map." + name);
      if (places.is_scalar() && !places.is_null()) {
        settings_.model_map[name]["Vanilla"] = places.text;
        continue;
      }
      Fields formats(places, path, diagnostics_);
      for (const std::string& format : kWeightFormats) {
        const std::string place = formats.text(format, Presence::kOptional);
        if (!place.empty()) settings_.model_map[name][format] = place;
      }
      if (const YamlNode* node = places.find(kGptqOfTheDocuments)) {
        const std::string place = formats.text(kGptqOfTheDocuments, Presence::kOptional);
        if (!place.empty()) take_gptq_of_the_documents(name, places, *node);
      }
      formats.reject_unknown();
    }
  }

  // ado's documents spell it so, its code does not.
  void take_gptq_of_the_documents(const std::string& name, const YamlNode& places,
                                  const YamlNode& place) {
    const std::string& gptq = kWeightFormats.back();
    const std::string path = fields_.path("model_map." + name + "." + kGptqOfTheDocuments);
    if (places.find(gptq) != nullptr) {
      diagnostics_.error(place, path, "stands beside " + gptq, "one of them");
      return;
    }
    diagnostics_.warning(place.line, path, "taken as " + gptq + "; ado would refuse this spelling");
    settings_.model_map[name][gptq] = place.text;
  }

  const YamlNode& node_;
  Fields fields_;
  Diagnostics& diagnostics_;
  ActuatorSettings& settings_;
  bool defaults_;
};

// Parameters alone, an actuatorconfiguration around them, or the resource in which ado stores that.
void read_source(const YamlNode& root, std::string path, Diagnostics& diagnostics,
                 ActuatorSettings& settings, bool defaults) {
  const YamlNode* node = &root;
  if (root.find("kind") != nullptr && root.find("config") != nullptr) {
    node = root.find("config");
    path = "config";
  }
  if (node->find("actuatorIdentifier") == nullptr && node->find("parameters") == nullptr) {
    ParameterReader(*node, path, diagnostics, settings, defaults).read();
    return;
  }
  Fields fields(*node, path, diagnostics);
  const std::string actuator = fields.text("actuatorIdentifier", Presence::kOptional);
  if (!actuator.empty() && actuator != "SFTTrainer") {
    diagnostics.error(*node->find("actuatorIdentifier"), fields.path("actuatorIdentifier"),
                      "unknown actuator '" + actuator + "'", "SFTTrainer",
                      nearest_spelling(actuator, {"SFTTrainer"}));
  }
  fields.any("metadata", Presence::kOptional);
  if (const YamlNode* parameters = fields.mapping("parameters", Presence::kOptional)) {
    ParameterReader(*parameters, fields.path("parameters"), diagnostics, settings, defaults).read();
  }
  fields.reject_unknown();
}

void overlay(const YamlNode& root, const std::string& origin, const std::string& path,
             ActuatorSettings& settings, std::vector<Diagnostic>& warnings, bool defaults = false) {
  Diagnostics diagnostics(origin);
  read_source(root, path, diagnostics, settings, defaults);
  diagnostics.throw_if_failed();
  warnings.insert(warnings.end(), diagnostics.warnings().begin(), diagnostics.warnings().end());
}

}  // namespace

std::vector<std::string> ActuatorSettings::model_names() const {
  std::vector<std::string> names;
  for (const auto& entry : model_map) names.push_back(entry.first);
  return names;
}

ActuatorSettings read_actuator_settings(const std::string& path, const YamlNode* inline_parameters,
                                        const std::string& inline_origin,
                                        std::vector<Diagnostic>& warnings) {
  ActuatorSettings settings;
  const std::string defaults = (resource_directory() / "config" / "actuator.yaml").string();
  overlay(read_yaml_file(defaults), defaults, {}, settings, warnings, true);
  if (inline_parameters != nullptr)
    overlay(*inline_parameters, inline_origin, "actuatorConfiguration", settings, warnings);
  if (!path.empty()) overlay(read_yaml_file(path), path, {}, settings, warnings);
  if (const char* file = std::getenv("SFTTRAINER_PARAMETERS_FILE");
      file != nullptr && *file != '\0') {
    overlay(read_yaml_file(file), file, {}, settings, warnings);
  }
  return settings;
}

}  // namespace sftbench
