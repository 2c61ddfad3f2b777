#include "cli/data_configuration.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sftbench/base/json_text.h"
#include "sftbench/base/text.h"
#include "sftbench/data/conversation.h"

namespace sftbench {
namespace {

YamlNode own_text(std::string text) {
  YamlNode node;
  node.value = text;
  node.text = std::move(text);
  return node;
}

// What a handler's arguments mean: its name -> names of fn_kwargs -> property; "": without effect here.
using Handlers = std::map<std::string, std::map<std::string, std::string>>;

const Handlers& handlers() {
  static const Handlers kHandlers = {
      {"add_tokenizer_eos_token", {{"dataset_text_field", ""}, {"text_column_name", ""}}},
      {"apply_custom_data_formatting_template",
       {{"dataset_text_field", ""},
        {"formatted_text_column_name", ""},
        {"template", "data_formatter_template"}}},
      {"tokenize",
       {{"dataset_text_field", "dataset_text_field"},
        {"text_column_name", "dataset_text_field"},
        {"truncation", ""},
        {"max_length", "model_max_length"}}},
      {"tokenize_and_apply_chat_template_with_masking",
       {{"conversation_column", "conversation_column"},
        {"conversation_column_name", "conversation_column"},
        {"max_seq_length", "model_max_length"}}},
      {"tokenize_and_apply_input_masking",
       {{"input_column_name", "input_column_name"},
        {"input_field_name", "input_column_name"},
        {"output_column_name", "output_column_name"},
        {"output_field_name", "output_column_name"},
        {"add_eos_token", ""}}},
  };
  return kHandlers;
}

// Those that people will look for: what works instead.
std::string instead_of(const std::string& handler) {
  static const std::map<std::string, std::string> kInstead = {
      {"apply_custom_jinja_template", "apply_custom_data_formatting_template, with {{name}} alone"},
      {"apply_tokenizer_chat_template", "tokenize_and_apply_chat_template_with_masking"},
      {"skip_samples_large_columns", "model_max_length, to which entries are cut"},
      {"skip_large_text", "model_max_length, to which entries are cut"},
  };
  const auto found = kInstead.find(handler);
  if (found != kInstead.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, arguments] : handlers()) names.push_back(name);
  return join(names, ", ");
}

bool is_share(double number) {
  return number > 0 && number <= 1;
}

class DatasetReader {
 public:
  DatasetReader(Diagnostics& diagnostics, const TakeValue& take)
      : diagnostics_(diagnostics), take_(take) {}

  void read(const YamlNode& dataset, const std::string& path) {
    if (!dataset.is_mapping()) {
      return error(dataset, path, "found " + describe(dataset), "data_paths and data_handlers");
    }
    for (const auto& [key, node] : dataset.members) member(key, node, path + "." + key);
    if (dataset.find("data_paths") == nullptr)
      error(dataset, path, "has no data_paths", "one file");
  }

  // Of the dataset that was read; nothing where it says none. One that stands alone is taken whole.
  std::optional<double> sampling() const { return sampling_; }

 private:
  void member(const std::string& key, const YamlNode& node, const std::string& path) {
    static const std::set<std::string> kWithoutEffect = {"name", "builder", "retain_columns"};
    if (kWithoutEffect.count(key) > 0 || node.is_null()) return;
    if (key == "data_paths") return read_paths(node, path);
    if (key == "data_handlers") return read_handlers(node, path);
    if (key == "split") return read_split(node, path);
    if (key == "sampling") {
      sampling_ = node.value.is_number() ? node.value.get<double>() : 0;
      if (is_share(*sampling_)) return;
      return error(node, path, "found " + describe(node), "a share above 0, at most 1");
    }
    const bool known = key == "rename_columns";
    error(node, path, "has no equal here",
          known ? "the columns' own names in the handlers' arguments"
                : "data_paths, data_handlers, sampling, split",
          known ? "" : nearest_spelling(key, {"data_paths", "data_handlers", "sampling", "split"}));
  }

  // Every entry is trained on or evaluated.
  void read_split(const YamlNode& node, const std::string& path) {
    const YamlNode* train = node.find("train");
    const YamlNode* validation = node.find("validation");
    const auto share = [](const YamlNode* part) {
      return part != nullptr && part->value.is_number() ? part->value.get<double>() : 0.0;
    };
    const bool whole = std::abs(share(train) + share(validation) - 1) < 1e-9;
    if (!node.is_mapping() || share(train) <= 0 || share(validation) < 0 || !whole) {
      return error(node, path, "found " + describe(node),
                   "train and validation, two shares that add up to 1");
    }
    if (share(validation) > 0) take_("eval_split", *validation, path + ".validation");
  }

  void read_paths(const YamlNode& node, const std::string& path) {
    if (!node.is_sequence() || node.items.size() != 1 || !node.items[0].is_scalar()) {
      return error(node, path, "found " + describe(node),
                   "a list of one file, folder or dataset of the hub");
    }
    take_("training_data_path", own_text(node.items[0].text), path);
  }

  void read_handlers(const YamlNode& node, const std::string& path) {
    if (!node.is_sequence()) return error(node, path, "found " + describe(node), "a list");
    for (size_t i = 0; i < node.items.size(); ++i) {
      read_handler(node.items[i], path + "[" + std::to_string(i) + "]");
    }
  }

  void read_handler(const YamlNode& node, const std::string& path) {
    const YamlNode* name = node.find("name");
    if (name == nullptr || !name->is_scalar()) {
      return error(node, path, "has no name", "name and arguments");
    }
    const std::string& handler = name->text;
    // The text of a template is tokenized by the handler behind it, whose column is the template's.
    const bool of_template = handler == "tokenize" && has_template_;
    if (handler == "remove_columns" || handler == "select_columns" || of_template) return;
    const auto known = handlers().find(handler);
    if (known == handlers().end()) {
      std::vector<std::string> names;
      for (const auto& [other, arguments] : handlers()) names.push_back(other);
      return error(*name, path, "the handler " + handler + " has no equal here",
                   instead_of(handler), nearest_spelling(handler, names));
    }
    has_template_ = has_template_ || handler == "apply_custom_data_formatting_template";
    const YamlNode* arguments = node.find("arguments");
    const YamlNode* values = arguments == nullptr ? nullptr : arguments->find("fn_kwargs");
    bool names_conversations = false;
    if (values != nullptr) {
      for (const auto& [key, value] : values->members) {
        const std::string place = path + ".arguments.fn_kwargs." + key;
        const auto property = known->second.find(key);
        if (property == known->second.end()) {
          error(value, place, "has no equal here", names_of(known->second));
        } else if (!property->second.empty()) {
          take_(property->second, value, place);
          names_conversations = names_conversations || property->second == "conversation_column";
        }
      }
    }
    if (handler == "tokenize_and_apply_chat_template_with_masking" && !names_conversations) {
      take_("conversation_column", own_text(kConversationField), path);
    }
  }

  static std::string names_of(const std::map<std::string, std::string>& arguments) {
    std::vector<std::string> names;
    for (const auto& [name, property] : arguments) names.push_back(name);
    return join(names, ", ");
  }

  void error(const YamlNode& node, const std::string& path, const std::string& message,
             std::string expected, std::string nearest = {}) {
    diagnostics_.error(node, path, message, std::move(expected), std::move(nearest));
  }

  Diagnostics& diagnostics_;
  const TakeValue& take_;
  bool has_template_ = false;
  std::optional<double> sampling_;
};

// Several sets as the property data_mixture: what a handler says of a set's entries is the set's.
class MixtureReader {
 public:
  MixtureReader(Diagnostics& diagnostics, const TakeValue& take)
      : diagnostics_(diagnostics), take_(take) {}

  void read(const YamlNode& datasets, const std::string& path) {
    Json sets = Json::array();
    for (size_t i = 0; i < datasets.items.size(); ++i) {
      sets.push_back(read_set(datasets.items[i], path + "[" + std::to_string(i) + "]"));
    }
    check_shares(datasets, path);
    take_("data_mixture", own_text(json_text(Json{{"datasets", std::move(sets)}})), path);
  }

 private:
  Json read_set(const YamlNode& dataset, const std::string& path) {
    Json set = Json::object();
    const TakeValue take = [&](const std::string& property, const YamlNode& value,
                               const std::string& place) {
      // How long entries are, and the template of conversations, are matters of all sets.
      if (property == "model_max_length" || property == "chat_template") {
        take_(property, value, place);
      } else {
        set[property] = value.value;
      }
    };
    DatasetReader reader(diagnostics_, take);
    reader.read(dataset, path);
    shares_.push_back(reader.sampling());
    if (shares_.back().value_or(0) > 0) set["sampling"] = *shares_.back();
    return set;
  }

  // All sets have one, or none has. A share that is none has been named before.
  void check_shares(const YamlNode& datasets, const std::string& path) {
    const auto said = std::count_if(shares_.begin(), shares_.end(),
                                    [](const auto& share) { return share.has_value(); });
    if (said == 0) return;
    double sum = 0;
    for (size_t i = 0; i < shares_.size(); ++i) {
      if (shares_[i] && !is_share(*shares_[i])) return;
      sum += shares_[i].value_or(0);
      if (shares_[i]) continue;
      return diagnostics_.error(datasets.items[i], path + "[" + std::to_string(i) + "]",
                                "has no sampling, and " + std::to_string(said) + " of " +
                                    std::to_string(shares_.size()) + " sets have one",
                                "a share for each set, or none");
    }
    if (std::abs(sum - 1) <= 1e-8) return;
    const double shown = std::round(sum * 1e9) / 1e9;  // 0.7 and 0.6 add up to 1.3
    diagnostics_.error(datasets, path, "the shares (sampling) add up to " + json_text(Json(shown)),
                       "1");
  }

  Diagnostics& diagnostics_;
  const TakeValue& take_;
  std::vector<std::optional<double>> shares_;
};

}  // namespace

void read_data_processor(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                         const TakeValue& take) {
  if (!node.is_mapping()) {
    return diagnostics.error(node, path, "found " + describe(node), "type: default");
  }
  static const std::set<std::string> kWithoutEffect = {"streaming"};
  for (const auto& [key, value] : node.members) {
    const std::string place = path + "." + key;
    if (value.is_null() || kWithoutEffect.count(key) > 0) continue;
    if (key == "chat_template" || key == "chat_template_path") {
      take("chat_template", value, place);
    } else if (key == "seed" || key == "sampling_seed") {
      take("sampling_seed", value, place);
    } else if (key == "sampling_stopping_strategy") {
      take("sampling_stopping_strategy", value, place);
    } else if (key != "type") {
      diagnostics.error(value, place, "has no equal here",
                        "type, seed, sampling_stopping_strategy, chat_template, "
                        "chat_template_path");
    } else if (value.text != "default") {
      diagnostics.error(value, place, "found " + describe(value), "default");
    }
  }
}

void read_datasets(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                   const TakeValue& take) {
  if (!node.is_sequence() || node.items.empty()) {
    return diagnostics.error(node, path, "found " + describe(node), "a list of datasets");
  }
  if (node.items.size() > 1) return MixtureReader(diagnostics, take).read(node, path);
  DatasetReader(diagnostics, take).read(node.items[0], path + "[0]");
}

}  // namespace sftbench
