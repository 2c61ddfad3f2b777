#include "checkpoint/adapter_settings.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Whole numbers above this are none that a rank can be, and a double no longer holds each of them.
constexpr double kMostRank = 1 << 24;

class SettingsReader {
 public:
  SettingsReader(const Json& config, const fs::path& file, MergeFindings& findings)
      : config_(config), file_(file), findings_(findings) {}

  AdapterSettings read() {
    refuse_other_kinds();
    refuse_changed_bases();
    AdapterSettings settings;
    settings.file = file_;
    settings.rank = number("r", true);
    settings.alpha = number("lora_alpha", false);
    settings.rank_stabilized = flag("use_rslora");
    settings.magnitudes = flag("use_dora");
    settings.transposed = flag("fan_in_fan_out");
    settings.modules_to_save = names("modules_to_save");
    settings.rank_pattern = numbers_by_pattern("rank_pattern", true);
    settings.alpha_pattern = numbers_by_pattern("alpha_pattern", false);
    return settings;
  }

 private:
  // null where the key is absent: peft's None.
  Json value(const char* key) const { return config_.value(key, Json()); }

  void add(const std::string& key, const std::string& message, const std::string& expected) {
    findings_.add(file_, key, message, expected);
  }

  // What peft does for these, and this does not.
  void refuse_other_kinds() {
    for (const char* key : {"use_qalora", "use_bdlora", "lora_bias", "target_parameters",
                            "trainable_token_indices", "layer_replication", "arrow_config",
                            "kasa_config", "velora_config", "monteclora_config"}) {
      const Json found = value(key);
      const bool is_set = found.is_boolean() ? found.get<bool>() : !found.empty();
      if (is_set) add(key, "merging such an adapter is not done here", "plain LoRA");
    }
    // peft takes an empty list for one, too, and merges none of them.
    if (!value("alora_invocation_tokens").is_null()) {
      add("alora_invocation_tokens",
          "the adapter acts behind these tokens only (aLoRA), which no merged weight can",
          "plain LoRA");
    }
    const Json bias = config_.value("bias", Json("none"));
    if (bias != "none") add("bias", "found " + shown(bias), "\"none\"");
  }

  // These start from another base than the one they name: they take from its weights what A and B
  // begin with. peft's save_pretrained converts them when it is asked to, and then says true here.
  void refuse_changed_bases() {
    static const std::set<std::string> kUnchanged = {"gaussian", "eva", "orthogonal", "mica"};
    const Json found = value("init_lora_weights");
    if (found.is_null() || found.is_boolean()) return;
    if (found.is_string() && kUnchanged.count(found.get<std::string>()) != 0) return;
    add("init_lora_weights",
        "found " + shown(found) + ", and such an adapter does not fit the base as it is",
        "true, false, " + join({kUnchanged.begin(), kUnchanged.end()}) +
            ", or an adapter that peft converted: save_pretrained with "
            "path_initial_model_for_weight_conversion");
  }

  double number(const char* key, bool of_rank) {
    const Json found = value(key);
    if (!is_usable(found, of_rank)) {
      add(key, found.is_null() ? "is missing" : "found " + shown(found), kind(of_rank));
      return of_rank ? 1 : 0;
    }
    return found.get<double>();
  }

  bool flag(const char* key) {
    const Json found = value(key);
    if (!found.is_null() && !found.is_boolean()) {
      add(key, "found " + shown(found), "true or false");
    }
    return found == Json(true);
  }

  std::vector<std::string> names(const char* key) {
    std::vector<std::string> names;
    const Json found = value(key);
    bool usable = found.is_null() || found.is_array();
    for (const Json& name : found.is_array() ? found : Json::array()) {
      usable = usable && name.is_string();
      if (usable) names.push_back(name.get<std::string>());
    }
    if (!usable) add(key, "found " + shown(found), "names of modules");
    return names;
  }

  std::vector<PatternNumber> numbers_by_pattern(const std::string& key, bool of_rank) {
    std::vector<PatternNumber> numbers;
    const Json found = value(key.c_str());
    if (found.is_null()) return numbers;
    if (!found.is_object()) {
      add(key, "found " + shown(found), "regular expressions with " + kind(of_rank) + " each");
      return numbers;
    }
    for (const auto& [expression, number] : found.items()) {
      const std::string place = key + "." + expression;
      if (!is_usable(number, of_rank)) {
        add(place, "found " + shown(number), kind(of_rank));
        continue;
      }
      try {
        numbers.push_back({expression, end_pattern(expression), number.get<double>()});
      } catch (const ModulePatternError& problem) {
        add(place, problem.what(), "a regular expression with " + kind(of_rank));
      }
    }
    return numbers;
  }

  static bool is_usable(const Json& number, bool of_rank) {
    if (!number.is_number()) return false;
    const auto value = number.get<double>();
    if (!of_rank) return std::isfinite(value);
    return number.is_number_integer() && value >= 1 && value <= kMostRank;
  }

  static std::string kind(bool of_rank) {
    return of_rank ? "a whole number above 0" : "a finite number";
  }

  static std::string shown(const Json& found) {
    constexpr size_t kLongest = 80;
    const std::string text = json_text(found);
    return text.size() <= kLongest ? text : std::string("a value of another kind");
  }

  const Json& config_;
  const fs::path& file_;
  MergeFindings& findings_;
};

// peft.utils.other.get_pattern_key: the first expression that matches.
const PatternNumber* matching(const std::vector<PatternNumber>& numbers, const std::string& linear,
                              const std::string& key, const fs::path& file,
                              MergeFindings& findings) {
  for (const PatternNumber& number : numbers) {
    try {
      if (number.pattern.matches(linear)) return &number;
    } catch (const ModulePatternError& problem) {
      findings.add_once(file, key + "." + number.expression, linear + " " + problem.what(),
                        "a simpler expression");
      return nullptr;
    }
  }
  return nullptr;
}

}  // namespace

AdapterSettings read_adapter_settings(const fs::path& folder, MergeFindings& findings) {
  const fs::path file = folder / kAdapterConfig;
  const Json config = read_json_file(file.string());
  const Json type = config.is_object() ? config.value("peft_type", Json()) : Json();
  if (type != "LORA") {
    throw InputError({finding(
        file, "peft_type",
        type.is_null() ? "is missing" : "found " + json_text(type) + ", which has nothing to merge",
        "LORA")});
  }
  return SettingsReader(config, file, findings).read();
}

float scaling_of(const AdapterSettings& settings, const std::string& linear, int64_t rank,
                 MergeFindings& findings) {
  const PatternNumber* own_rank =
      matching(settings.rank_pattern, linear, "rank_pattern", settings.file, findings);
  const PatternNumber* own_alpha =
      matching(settings.alpha_pattern, linear, "alpha_pattern", settings.file, findings);
  const std::string rank_key =
      own_rank == nullptr ? std::string("r") : "rank_pattern." + own_rank->expression;
  const double expected = own_rank == nullptr ? settings.rank : own_rank->value;
  const auto r = static_cast<double>(rank);
  if (expected != r) {
    findings.add_once(settings.file, rank_key,
                      "found " + std::to_string(static_cast<int64_t>(expected)) + ", and " +
                          linear + " has rank " + std::to_string(rank),
                      "the adapter_config.json of these tensors");
    return 0;
  }
  const double alpha = own_alpha == nullptr ? settings.alpha : own_alpha->value;
  const auto scaling = static_cast<float>(alpha / (settings.rank_stabilized ? std::sqrt(r) : r));
  if (std::isfinite(scaling)) return scaling;
  findings.add_once(settings.file,
                    own_alpha == nullptr ? "lora_alpha" : "alpha_pattern." + own_alpha->expression,
                    "scales " + linear + " beyond what float32 holds", "a smaller number");
  return 0;
}

}  // namespace sftbench
