#include "translate/data_configuration.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <utility>
#include <vector>

#include "sftbench/base/dataset_part.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/data/conversation.h"
#include "sftbench/huggingface/datasets.h"
#include "sftbench/translate/argument_options.h"

namespace sftbench {
namespace {

YamlNode own_text(std::string text) {
  YamlNode node;
  node.value = text;
  node.text = std::move(text);
  return node;
}

// What a handler's arguments mean: its name -> names of fn_kwargs -> property; "": without effect
// here.
using Handlers = std::map<std::string, std::map<std::string, std::string>>;

const Handlers& handlers() {
  static const Handlers kHandlers = {
      {"add_tokenizer_eos_token", {{"dataset_text_field", ""}, {"text_column_name", ""}}},
      {"apply_custom_data_formatting_template",
       {{"dataset_text_field", ""},
        {"formatted_text_column_name", ""},
        {"template", "data_formatter_template"}}},
      {"apply_custom_jinja_template",
       {{"dataset_text_field", ""},
        {"formatted_text_column_name", ""},
        {"template", "data_formatter_template"}}},
      {"apply_tokenizer_chat_template",
       {{"formatted_text_column_name", ""},
        {"dataset_text_field", ""},
        {"conversation_column", "conversation_column"},
        {"conversation_column_name", "conversation_column"}}},
      {"tokenize",
       {{"dataset_text_field", "dataset_text_field"},
        {"text_column_name", "dataset_text_field"},
        {"truncation", ""},
        {"max_length", "model_max_length"}}},
      {"tokenize_and_apply_chat_template_with_masking",
       {{"conversation_column", "conversation_column"},
        {"conversation_column_name", "conversation_column"},
        {"formatted_text_column_name", ""},
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
  if (handler.starts_with("skip_")) return "model_max_length, to which entries are cut";
  std::vector<std::string> names;
  for (const auto& [name, arguments] : handlers()) names.push_back(name);
  return join(names, ", ");
}

bool is_share(double number) {
  return number > 0 && number <= 1;
}

class DatasetReader {
 public:
  DatasetReader(Diagnostics& diagnostics, const TakeValue& take, std::vector<std::string>& notes)
      : diagnostics_(diagnostics), take_(take), notes_(notes) {}

  void read(const YamlNode& dataset, const std::string& path) {
    if (!dataset.is_mapping()) {
      return error(dataset, path, "found " + describe(dataset), "data_paths and data_handlers");
    }
    if (const YamlNode* split = dataset.find("dataset_split_name"); split != nullptr)
      split_ = split->is_null() ? std::string() : split->text;
    // Later keys have the names that it gives.
    if (const YamlNode* names = dataset.find("rename_columns"); names != nullptr)
      member("rename_columns", *names, path + ".rename_columns");
    for (const auto& [key, node] : dataset.members) {
      if (key != "rename_columns") member(key, node, path + "." + key);
    }
    if (dataset.find("data_paths") == nullptr)
      error(dataset, path, "has no data_paths", "one file");
  }

  // Of the dataset that was read; nothing where it says none. One that stands alone is taken whole.
  std::optional<double> sampling() const { return sampling_; }

 private:
  void member(const std::string& key, const YamlNode& node, const std::string& path) {
    static const std::set<std::string> kWithoutEffect = {"name", "builder", "retain_columns",
                                                         "shuffle", "dataset_split_name"};
    if (kWithoutEffect.count(key) > 0 || node.is_null()) return;
    if (key == "data_paths") return read_paths(node, path);
    if (key == "rename_columns") return read_names(node, path);
    if (key == "data_handlers") return read_handlers(node, path);
    if (key == "split") return read_split(node, path);
    if (key == "sampling") {
      sampling_ = node.value.is_number() ? node.value.get<double>() : 0;
      if (is_share(*sampling_)) return;
      return error(node, path, "found " + describe(node), "a share above 0, at most 1");
    }
    const std::vector<std::string> known = {"data_paths", "data_handlers", "rename_columns",
                                            "sampling", "split"};
    error(node, path, "has no equal here", join(known, ", "), nearest_spelling(key, known));
  }

  // What is in neither share is left out.
  void read_split(const YamlNode& node, const std::string& path) {
    const YamlNode* train = node.find("train");
    const YamlNode* validation = node.find("validation");
    const auto share = [](const YamlNode* part) {
      return part != nullptr && part->value.is_number() ? part->value.get<double>() : 0.0;
    };
    const double all = share(train) + share(validation);
    if (!node.is_mapping() || share(train) < 0 || share(validation) < 0 || all <= 0 ||
        all > 1 + 1e-9) {
      return error(node, path, "found " + describe(node),
                   "train and validation, two shares that add up to 1 or less");
    }
    if (share(validation) > 0) take_("eval_split", *validation, path + ".validation");
    if (all < 1 - 1e-9 || share(train) == 0) {
      take_("train_split", scalar_node(train == nullptr ? "0.0" : train->text), path + ".train");
    }
  }

  void read_paths(const YamlNode& node, const std::string& path) {
    if (!node.is_sequence() || node.items.size() != 1 || !node.items[0].is_scalar()) {
      return error(node, path, "found " + describe(node),
                   "a list of one file, folder or dataset of the hub");
    }
    std::string place = node.items[0].text;
    if (!split_.empty() && is_dataset_name(place)) {
      DatasetPart part;
      set_split(part, split_);
      place += text_of(part);
    }
    take_("training_data_path", own_text(std::move(place)), path);
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
    const YamlNode* arguments = node.find("arguments");
    const YamlNode* values = arguments == nullptr ? nullptr : arguments->find("fn_kwargs");
    // The text of a template is tokenized by the handler behind it, whose column is the template's.
    const bool of_text = handler == "tokenize" && has_text_;
    if (handler == "remove_columns" || handler == "select_columns" || of_text) return;
    if (handler == "rename_columns") {
      const YamlNode* names = arguments == nullptr ? nullptr : arguments->find("column_mapping");
      return read_names(names == nullptr ? node : *names, path + ".arguments.column_mapping");
    }
    if (handler == "duplicate_columns") return read_copy(node, values, path);
    const auto known = handlers().find(handler);
    if (known == handlers().end()) {
      std::vector<std::string> names;
      for (const auto& [other, with] : handlers()) names.push_back(other);
      return error(*name, path, "the handler " + handler + " has no equal here",
                   instead_of(handler), nearest_spelling(handler, names));
    }
    has_text_ = has_text_ || handler.starts_with("apply_");
    const bool names_conversations =
        values != nullptr && read_arguments(*values, known->second, path);
    const bool of_conversations = handler.find("chat_template") != std::string::npos;
    if (of_conversations && !names_conversations) {
      take_("conversation_column", own_text(kConversationField), path);
    }
    if (handler == "apply_tokenizer_chat_template") {
      notes_.push_back(diagnostics_.file() + ": " + path + " " + handler +
                       ": what assistants say bears loss");
    }
  }

  // Whether one of them names the column of conversations.
  bool read_arguments(const YamlNode& values, const std::map<std::string, std::string>& known,
                      const std::string& path) {
    bool names_conversations = false;
    for (const auto& [key, value] : values.members) {
      const std::string place = path + ".arguments.fn_kwargs." + key;
      const auto property = known.find(key);
      if (property == known.end()) {
        error(value, place, "has no equal here", names_of(known));
      } else if (property->second == "data_formatter_template" &&
                 value.text.find("{%") != std::string::npos) {
        error(value, place, "has statements of Jinja, which have no equal here",
              "a text with {{name}} alone");
      } else if (!property->second.empty() && !value.is_null()) {
        take_(property->second, with_first_names(property->second, value), place);
        names_conversations = names_conversations || property->second == "conversation_column";
      }
    }
    return names_conversations;
  }

  // --- columns that were renamed go by the names that the entries have

  void read_names(const YamlNode& node, const std::string& path) {
    if (!node.is_mapping()) return error(node, path, "found " + describe(node), "{old: new}");
    for (const auto& [old, renamed] : node.members) {
      const auto first = first_names_.find(old);
      const std::string name = first == first_names_.end() ? old : first->second;
      first_names_.erase(old);
      first_names_[renamed.text] = name;
    }
  }

  YamlNode with_first_names(const std::string& property, YamlNode value) const {
    if (!value.is_scalar()) return value;
    std::string text = value.text;
    if (property == "data_formatter_template") {
      text = with_first_fields(text);
    } else if (const auto first = first_names_.find(text);
               first != first_names_.end() && property != "model_max_length") {
      text = first->second;
    }
    if (text == value.text) return value;
    YamlNode renamed = own_text(text);
    renamed.line = value.line;
    return renamed;
  }

  // {{ element['a'] }} and {{ a }} are one field.
  std::string with_first_fields(const std::string& text) const {
    static const std::regex kField(
        R"(\{\{\s*(?:element(?:\.|\[['"]))?([A-Za-z0-9_]+)(?:['"]\])?\s*\}\})");
    std::string filled;
    auto last = text.cbegin();
    for (std::sregex_iterator field(text.begin(), text.end(), kField), end; field != end; ++field) {
      const std::string name = (*field)[1];
      const auto first = first_names_.find(name);
      filled.append(last, (*field)[0].first);
      filled += "{{" + (first == first_names_.end() ? name : first->second) + "}}";
      last = (*field)[0].second;
    }
    return filled.append(last, text.cend());
  }

  // Labels that are the ids: all of an entry bears loss.
  void read_copy(const YamlNode& node, const YamlNode* values, const std::string& path) {
    const auto names = [values](const char* key, const char* column) {
      const YamlNode* value = values == nullptr ? nullptr : values->find(key);
      return value != nullptr && value->text == column;
    };
    if (names("existing_column_name", "input_ids") && names("new_column_name", "labels"))
      return take_("response_template", own_text("None"), path);
    error(node, path, "has no equal here", "the columns input_ids and labels");
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
  std::vector<std::string>& notes_;
  bool has_text_ = false;                           // made of an entry by a handler
  std::string split_;                               // of a dataset of the hub
  std::map<std::string, std::string> first_names_;  // of columns that were renamed
  std::optional<double> sampling_;
};

// How long entries are, what bears loss and the template of conversations are matters of all sets.
bool is_of_all_sets(const std::string& property) {
  return property == "model_max_length" || property == "chat_template" ||
         property == "response_template";
}

struct SetShare {
  std::optional<double> share;
  std::string place;  // of the set
  int line;
};

// All sets that are trained on have a share, or none has. A share that is none has been named
// before.
void check_shares(const std::vector<SetShare>& shares, const YamlNode& list,
                  const std::string& path, Diagnostics& diagnostics) {
  const auto said = std::count_if(shares.begin(), shares.end(),
                                  [](const SetShare& set) { return set.share.has_value(); });
  if (said == 0) return;
  double sum = 0;
  for (const auto& [share, place, line] : shares) {
    if (share && !is_share(*share)) return;
    sum += share.value_or(0);
    if (share) continue;
    return diagnostics.error(line, place,
                             "has no sampling, and " + std::to_string(said) + " of " +
                                 counted(std::ssize(shares), "set has one", "sets have one"),
                             "a share for each set, or none");
  }
  if (std::abs(sum - 1) <= 1e-8) return;
  const double shown = std::round(sum * 1e9) / 1e9;  // 0.7 and 0.6 add up to 1.3
  diagnostics.error(list, path, "the shares (sampling) add up to " + json_text(Json(shown)), "1");
}

// A set of several files is several sets, one behind the other.
std::vector<YamlNode> one_file_each(const YamlNode& set) {
  const YamlNode* paths = set.find("data_paths");
  const bool alone = set.find("sampling") == nullptr && set.find("split") == nullptr;
  if (paths == nullptr || paths->items.size() < 2 || !alone) return {set};
  std::vector<YamlNode> sets;
  for (const YamlNode& path : paths->items) {
    YamlNode one = set;
    for (auto& [key, node] : one.members) {
      if (key == "data_paths") node.items = {path};
    }
    sets.push_back(std::move(one));
  }
  return sets;
}

// The text of standard base64; nothing for any other.
std::optional<std::string> decoded_base64(std::string text) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  for (int padding = 0; padding < 2 && text.back() == '='; ++padding) text.pop_back();
  std::string decoded;
  uint32_t bits = 0, count = 0;
  for (const char c : text) {
    const size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = bits << 6 | static_cast<uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    decoded += static_cast<char>(bits >> count & 0xFF);
  }
  return decoded;
}

}  // namespace

void read_data_processor(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                         const TakeValue& take) {
  if (!node.is_mapping()) {
    return diagnostics.error(node, path, "found " + describe(node), "type: default");
  }
  static const std::set<std::string> kWithoutEffect = {"streaming", "odm"};  // its type is refused
  for (const auto& [key, value] : node.members) {
    const std::string place = path + "." + key;
    if (value.is_null() || kWithoutEffect.count(key) > 0) continue;
    if (key == "chat_template" || key == "chat_template_path") {
      take("chat_template", value, place);
    } else if (key == "chat_template_base64") {
      const std::optional<std::string> text = decoded_base64(value.text);
      if (!text) {
        diagnostics.error(value, place, "is no base64", "a template so encoded, or chat_template");
        continue;
      }
      YamlNode decoded = own_text(*text);
      decoded.line = value.line;
      take("chat_template", std::move(decoded), place);
    } else if (key == "seed" || key == "sampling_seed") {
      take("sampling_seed", value, place);
    } else if (key == "sampling_stopping_strategy") {
      take("sampling_stopping_strategy", value, place);
    } else if (key != "type") {
      diagnostics.error(value, place, "has no equal here",
                        "type, seed, sampling_stopping_strategy, chat_template, "
                        "chat_template_path");
    } else if (value.text != "default") {
      diagnostics.error(value, place, "found " + describe(value),
                        "default, where sampling gives each set its share");
    }
  }
}

void read_sets(const YamlNode& list, const std::string& path, Diagnostics& diagnostics,
               const TakeValue& take, const ReadSet& read_set) {
  if (!list.is_sequence() || list.items.empty()) {
    return diagnostics.error(list, path, "found " + describe(list), "a list of datasets");
  }
  // Of a set that leaves entries out, a mixture alone says how many.
  const YamlNode* split = list.items[0].find("split");
  const auto share = [split](const char* part) {
    const YamlNode* node = split == nullptr ? nullptr : split->find(part);
    return node != nullptr && node->value.is_number() ? node->value.get<double>() : 0.0;
  };
  const YamlNode* weight = list.items[0].find("weight");  // of the alignment handbook
  const bool leaves_out = (split != nullptr && split->is_mapping() &&
                           std::abs(share("train") + share("validation") - 1) > 1e-9) ||
                          (weight != nullptr && weight->value.is_number() && weight->value < 1);
  const auto place = [&path](size_t i) { return path + "[" + std::to_string(i) + "]"; };
  if (list.items.size() == 1 && !leaves_out) {
    (void)read_set(list.items[0], place(0), diagnostics, take);
    return;
  }
  Json sets = Json::array();
  std::vector<SetShare> shares;
  for (size_t i = 0; i < list.items.size(); ++i) {
    Json set = Json::object();
    const TakeValue take_of_set = [&](const std::string& property, const YamlNode& value,
                                      const std::string& where) {
      if (is_of_all_sets(property)) return take(property, value, where);
      set[property] = value.value;
    };
    const std::optional<double> of_set =
        read_set(list.items[i], place(i), diagnostics, take_of_set);
    if (of_set.value_or(0) > 0) set["sampling"] = *of_set;
    // What is evaluated alone has none.
    if (set.value("train_split", 1.0) > 0) {
      shares.push_back({of_set, place(i), list.items[i].line});
    }
    sets.push_back(std::move(set));
  }
  check_shares(shares, list, path, diagnostics);
  take("data_mixture", own_text(json_text(Json{{"datasets", std::move(sets)}})), path);
}

void read_datasets(const YamlNode& node, const std::string& path, Diagnostics& diagnostics,
                   const TakeValue& take, std::vector<std::string>& notes) {
  YamlNode list = node;
  list.items.clear();
  for (const YamlNode& set : node.items) {
    for (YamlNode& one : one_file_each(set)) list.items.push_back(std::move(one));
  }
  read_sets(list, path, diagnostics, take,
            [&notes](const YamlNode& set, const std::string& place, Diagnostics& problems,
                     const TakeValue& take_of_set) {
              DatasetReader reader(problems, take_of_set, notes);
              reader.read(set, place);
              return reader.sampling();
            });
}

}  // namespace sftbench
