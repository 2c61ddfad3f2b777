// What keys of data say together: sets by their names in another program, and templates by theirs.
#include <filesystem>

#include "sftbench/base/dataset_part.h"
#include "sftbench/data/entry_template.h"
#include "sftbench/translate/argument_options.h"
#include "translate/argument_layers.h"
#include "translate/argument_reader.h"
#include "translate/argument_reasons.h"
#include "translate/registered_datasets.h"

namespace sftbench {

// trl's names of a dataset, of which --data makes one. It evaluates the other split where
// eval_strategy asks for evaluations.
void ArgumentFileReader::settle_hub_data() {
  const HubData& data = hub_data_;
  const GivenValue* other = find("training_data_path");
  if (given_.data || (data.name.empty() && other != nullptr)) return;
  if (data.name.empty()) {
    if (data.config.empty() && (data.split.empty() || data.split == DatasetPart().split)) return;
    return diagnostics_->error(0, data.config.empty() ? "dataset_train_split" : "dataset_config",
                               "is given alone", "dataset_name beside it");
  }
  const auto named = [&data](const std::string& split) {
    DatasetPart part;
    part.config = data.config;
    if (!split.empty()) set_split(part, split);
    return text_node(data.name + text_of(part));
  };
  if (other != nullptr) {
    return diagnostics_->error(0, data.source, "says what " + other->source + " says, too",
                               "one of them");
  }
  file_.values.push_back({data.source, "training_data_path", named(data.split)});
  const GivenValue* strategy = find("eval_strategy");
  const bool evaluates = strategy != nullptr && !is_value(strategy->value, "no") &&
                         !is_value(strategy->value, "false");
  if (!evaluates || find("validation_data_path") != nullptr || find("eval_split") != nullptr)
    return;
  file_.values.push_back({data.source, "validation_data_path", named(data.test_split)});
}

// The files and forms that dataset_info.json has under LLaMA-Factory's names.
void ArgumentFileReader::settle_registered_data() {
  if (given_.data || registered_.names.empty()) return;
  std::error_code error;
  const std::filesystem::path given = registered_.folder;
  for (const std::filesystem::path& folder :
       {given, std::filesystem::path(registered_.beside) / given}) {
    const std::filesystem::path path = (folder / "dataset_info.json").lexically_normal();
    if (!std::filesystem::is_regular_file(path, error)) continue;
    Diagnostics diagnostics(path.string());
    try {
      const TakeValue take = [&](const std::string& property, YamlNode value,
                                 const std::string& key) {
        const std::string source = place_of(path.string(), value.line, key);
        file_.values.push_back({source, property, std::move(value)});
      };
      const RegisteredSets sets = {registered_.names, folder.string(), of_texts_};
      read_registered_sets(sets, read_yaml_file(path.string()), diagnostics, take);
      collect(diagnostics);
    } catch (const InputError& problem) {
      problems_.insert(problems_.end(), problem.diagnostics().begin(), problem.diagnostics().end());
    }
    return;
  }
  diagnostics_->error(0, registered_.source,
                      "found " + registered_.value +
                          ", names of LLaMA-Factory's dataset_info.json, and there is no " +
                          (given / "dataset_info.json").string(),
                      kOtherData);
}

// Templates that other programs bring along.
void ArgumentFileReader::settle_named_template() {
  const NamedTemplate& named = named_template_;
  if (named.source.empty() || (named.name == "jinja" && find("chat_template") != nullptr)) return;
  const GivenValue* form = find("data_formatter_template");
  if (!given_.data && form != nullptr) {
    const bool same = form->value.text == named.name ||
                      (form->value.text == kPromptCompletionForm && named.name == "empty");
    if (!same)
      note(named.source + " " + named.value + ": entries are texts in the form " +
           form->value.text + ", rather than turns of this template");
  } else {
    note(named.source + " " + named.value +
         ": conversations follow the tokenizer's own template, or --chat-template");
  }
}

}  // namespace sftbench
