#include "sftbench/plan/data_sets.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/data/mixing.h"

namespace sftbench {
namespace {

constexpr const char* kDefaultStrategy = "all_exhausted";

using Read = std::function<void(DataSet&, const Json&)>;

template <typename Member>
Read into(Member DataSource::*member) {
  return [member](DataSet& set, const Json& value) { value.get_to(set.source.*member); };
}

const std::map<std::string, Read>& readers() {
  static const std::map<std::string, Read> kReaders = {
      {"path", into(&DataSource::path)},
      {"pretokenized", into(&DataSource::pretokenized)},
      {"conversation_field", into(&DataSource::conversation_field)},
      {"entry_template", into(&DataSource::entry_template)},
      {"input_field", into(&DataSource::input_field)},
      {"output_field", into(&DataSource::output_field)},
      {"text_field", into(&DataSource::text_field)},
      {"share", [](DataSet& set, const Json& value) { value.get_to(set.share); }},
      {"held_out", [](DataSet& set, const Json& value) { value.get_to(set.held_out); }},
      {"trained", [](DataSet& set, const Json& value) { value.get_to(set.trained); }},
  };
  return kReaders;
}

[[noreturn]] void refuse(const std::string& key, const std::string& message,
                         const std::string& expected) {
  throw InputError({{"job", 0, "data.mixture." + key, message, expected, {}}});
}

// An entry has one form: that of the set, or that of all.
bool says_form(const Json& set) {
  constexpr std::array kForms = {"pretokenized", "conversation_field", "entry_template",
                                 "input_field", "text_field"};
  return std::any_of(kForms.begin(), kForms.end(),
                     [&set](const char* form) { return set.contains(form); });
}

void forget_form(DataSource& source) {
  source.pretokenized = false;
  source.entry_template.clear();
  source.input_field.clear();
  source.output_field.clear();
}

DataSet read_set(const DataSource& common, const Json& json, const std::string& key) {
  if (!json.is_object() || !json.contains("path")) {
    refuse(key, "found " + json_text(json), "an object with a path");
  }
  DataSet set = {common, 0, 0};
  set.source.mixture = Json::object();
  set.source.conversation_field.clear();  // of any set: it has the chat template
  if (says_form(json)) forget_form(set.source);
  for (const auto& [name, value] : json.items()) {
    const auto reader = readers().find(name);
    if (reader == readers().end()) {
      std::vector<std::string> names;
      for (const auto& [known, read] : readers()) names.push_back(known);
      refuse(key + "." + name, "unknown key", "one of " + join(names));
    }
    try {
      reader->second(set, value);
    } catch (const Json::exception&) {
      refuse(key + "." + name, "found " + json_text(value), "a value of another type");
    }
  }
  return set;
}

[[noreturn]] void refuse_split(const std::string& entries) {
  throw RunError(ReasonCode::kData, entries + ", of which eval_split leaves none to train on");
}

std::vector<int64_t> at_positions(const std::vector<int64_t>& entries,
                                  std::vector<int64_t> positions) {
  for (int64_t& position : positions) position = entries[static_cast<size_t>(position)];
  return positions;
}

}  // namespace

std::vector<DataSet> data_sets(const TrainingJob& job) {
  const double held_out =
      job.evaluation.evaluates() && job.evaluation.path.empty() && job.evaluation.split < 1
          ? job.evaluation.split
          : 0;
  if (job.data.mixture.empty()) return {{job.data, 0, held_out}};
  const auto sets = job.data.mixture.find("sets");
  if (sets == job.data.mixture.end() || !sets->is_array() || sets->empty()) {
    refuse("sets", "is no list of sets", "a list of objects with a path");
  }
  std::vector<DataSet> found;
  for (size_t i = 0; i < sets->size(); ++i) {
    found.push_back(read_set(job.data, (*sets)[i], "sets[" + std::to_string(i) + "]"));
    if (!job.evaluation.evaluates()) found.back().held_out = 0;
  }
  return found;
}

DividedEntries divide_entries(const TrainingJob& job, const std::vector<DataSet>& sets,
                              const std::vector<int64_t>& sizes) {
  const EvaluationPlan& evaluation = job.evaluation;
  const uint64_t seed = job.data.sampling_seed;
  DividedEntries divided;
  std::vector<int64_t> left;  // to train on, one set behind the other
  std::vector<int64_t> mixed_lengths;
  std::vector<double> shares;
  int64_t begin = 0;
  for (size_t i = 0; i < sets.size(); begin += sizes[i++]) {
    const int64_t most = job.data.most_entries;
    const EntrySplit split = split_entries(most > 0 ? std::min(most, sizes[i]) : sizes[i],
                                           sets[i].held_out, seed, sets[i].trained);
    if (split.training.empty() && sets[i].trained != 0)
      refuse_split(sets[i].source.path + " has " + counted(sizes[i], "entry", "entries"));
    for (const int64_t entry : split.training) left.push_back(begin + entry);
    for (const int64_t entry : split.evaluation) divided.evaluation.push_back(begin + entry);
    if (sets[i].trained == 0) continue;  // evaluated alone
    mixed_lengths.push_back(std::ssize(split.training));
    shares.push_back(sets[i].share);
  }
  if (evaluation.evaluates() && evaluation.path.empty() && evaluation.split >= 1) {
    EntrySplit of_all = split_entries(std::ssize(left), evaluation.split, seed);
    if (of_all.training.empty())
      refuse_split("there are " + counted(std::ssize(left), "entry", "entries"));
    divided.training = at_positions(left, std::move(of_all.training));
    divided.evaluation = at_positions(left, std::move(of_all.evaluation));
  } else if (shares.size() < 2 || shares.front() == 0) {
    divided.training = std::move(left);
  } else {
    const auto stopping = named<StoppingStrategy>(stopping_strategy(job.data));
    divided.training = at_positions(left, interleave(mixed_lengths, shares, stopping, seed));
  }
  return divided;
}

bool lacks_chat_template(const TrainingJob& job) {
  return !job.data.conversation_field.empty() && job.data.chat_template.empty();
}

std::string stopping_strategy(const DataSource& data) {
  const auto found = data.mixture.find("stopping_strategy");
  return found == data.mixture.end() ? kDefaultStrategy : found->get<std::string>();
}

TextDatasetOptions text_options(const DataSource& data, int64_t vocabulary) {
  return {.pretokenized = data.pretokenized,
          .conversation_field = data.conversation_field,
          .mask = data.mask,
          .entry_template = data.entry_template,
          .input_field = data.input_field,
          .output_field = data.output_field,
          .text_field = data.text_field,
          .response_template = data.response_template,
          .model_max_length = data.model_max_length,
          .vocabulary = vocabulary};
}

}  // namespace sftbench
