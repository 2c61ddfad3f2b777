#include "translate/registered_datasets.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "sftbench/base/dataset_part.h"
#include "sftbench/base/text.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/translate/argument_options.h"
#include "translate/argument_names.h"
#include "translate/argument_reasons.h"

namespace sftbench {
namespace {

class RegisteredSet {
 public:
  RegisteredSet(const YamlNode& set, const std::string& path, const RegisteredSets& sets,
                Diagnostics& diagnostics, const TakeValue& take)
      : set_(set), path_(path), sets_(sets), diagnostics_(diagnostics), take_(take) {}

  void read() {
    refuse_keys(set_, path_,
                {"hf_hub_url", "ms_hub_url", "om_hub_url", "file_name", "formatting", "subset",
                 "split", "columns", "tags", "ranking"});
    if (const YamlNode* ranking = set_.find("ranking");
        ranking != nullptr && !is_value(*ranking, "false"))
      diagnostics_.error(*ranking, path_ + ".ranking", "asks for preferences", kSupervisedOnly);
    put("training_data_path", place(), "file_name");
    const std::string formatting = member(&set_, "formatting");
    if (sets_.of_texts)
      return put("dataset_text_field", column("prompt", "instruction"), "columns");
    if (formatting.empty() || formatting == kAlpacaForm) return read_pairs();
    read_turns();
  }

 private:
  static std::string member(const YamlNode* mapping, const char* key) {
    const YamlNode* node = mapping == nullptr ? nullptr : mapping->find(key);
    return node != nullptr && node->is_scalar() && !node->is_null() ? node->text : std::string();
  }

  // Where a set says some, it has no others.
  std::string column(const char* name, const char* usual) const {
    const YamlNode* columns = set_.find("columns");
    return columns == nullptr ? usual : member(columns, name);
  }

  void put(const char* property, const std::string& value, const char* key) {
    if (value.empty()) return;
    YamlNode node = text_node(value);
    node.line = set_.line;
    take_(property, std::move(node), path_ + "." + key);
  }

  void refuse(const char* key, const std::string& message, const std::string& expected) {
    const YamlNode* node = set_.find(key);
    diagnostics_.error(node == nullptr ? set_ : *node, path_ + "." + key, message, expected);
  }

  void refuse_keys(const YamlNode& mapping, const std::string& path,
                   const std::vector<std::string>& known) {
    for (const auto& [key, node] : mapping.members) {
      if (says_nothing(node) || std::find(known.begin(), known.end(), key) != known.end()) continue;
      diagnostics_.error(node, path + "." + key, "has no equal here", kOtherData,
                         nearest_spelling(key, known));
    }
  }

  std::string place() {
    const std::string hub = member(&set_, "hf_hub_url"), file = member(&set_, "file_name");
    DatasetPart part;
    part.config = member(&set_, "subset");
    if (const std::string split = member(&set_, "split"); !split.empty()) set_split(part, split);
    if (!hub.empty()) return hub + text_of(part);
    if (file.empty()) {
      diagnostics_.error(set_, path_, "has neither file_name nor hf_hub_url", kOtherData);
      return {};
    }
    return (std::filesystem::path(sets_.folder) / file).lexically_normal().string() + text_of(part);
  }

  void read_pairs() {
    if (const YamlNode* columns = set_.find("columns"); columns != nullptr)
      refuse_keys(*columns, path_ + ".columns", {"prompt", "query", "response"});
    const std::string prompt = column("prompt", "instruction"), query = column("query", "input"),
                      response = column("response", "output");
    if (prompt == "instruction" && response == "output" && (query.empty() || query == "input"))
      return put("data_formatter_template", kAlpacaForm, "columns");
    if (!query.empty() || prompt.empty() || response.empty()) {
      return refuse("columns", "are no instruction, input and output, and no prompt and response",
                    "--data FILE and --template '{{" + prompt + "}} {{" + response + "}}'");
    }
    if (prompt == "prompt" && response == "completion")
      return put("data_formatter_template", kPromptCompletionForm, "columns");
    put("input_column_name", prompt, "columns");
    put("output_column_name", response, "columns");
  }

  void read_turns() {
    const YamlNode* columns = set_.find("columns");
    if (columns != nullptr) {
      refuse_keys(*columns, path_ + ".columns", {"messages", "tools"});
      const std::string tools = member(columns, "tools");
      if (!tools.empty() && tools != "tools" && tools != "functions")
        refuse("columns", "has tools in " + tools, "tools");
    }
    const std::string messages = column("messages", "conversations");
    if (messages.empty()) return refuse("columns", "has no messages", "messages: COLUMN");
    put("conversation_column", messages, "columns");
    const YamlNode* tags = set_.find("tags");
    const std::pair<const char*, std::vector<std::string>> usual[] = {
        {"role_tag", {"from", "role"}},
        {"content_tag", {"value", "content"}},
        {"user_tag", {"human", "user"}},
        {"assistant_tag", {"gpt", "assistant"}},
        {"system_tag", {"system"}},
        {"observation_tag", {"observation", "tool"}},
        {"function_tag", {"function_call", "function"}}};
    for (const auto& [tag, values] : usual) {
      const std::string value = member(tags, tag);
      if (!value.empty() && std::find(values.begin(), values.end(), value) == values.end()) {
        refuse("tags", std::string(tag) + " is '" + value + "', which has no equal here",
               join(values, " or "));
      }
    }
  }

  const YamlNode& set_;
  const std::string& path_;
  const RegisteredSets& sets_;
  Diagnostics& diagnostics_;
  const TakeValue& take_;
};

}  // namespace

void read_registered_sets(const RegisteredSets& sets, const YamlNode& info,
                          Diagnostics& diagnostics, const TakeValue& take) {
  YamlNode list;
  list.kind = YamlNode::Kind::kSequence;
  std::vector<std::string> known;
  for (const YamlMember& member : info.members) known.push_back(member.key);
  for (const std::string& name : sets.names) {
    const YamlNode* set = info.find(name);
    if (set != nullptr) {
      list.items.push_back(*set);
    } else {
      diagnostics.error(info, name, "is no set of this file", kOtherData,
                        nearest_spelling(name, known));
    }
  }
  if (list.items.size() != sets.names.size()) return;
  read_sets(list, "dataset", diagnostics, take,
            [&sets](const YamlNode& set, const std::string& path, Diagnostics& problems,
                    const TakeValue& take_of_set) {
              RegisteredSet(set, path, sets, problems, take_of_set).read();
              return std::optional<double>();
            });
}

}  // namespace sftbench
