#include "cli/own_model_check.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <utility>

#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/kept_digest.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/checkpoint/checkpoint.h"
#include "sftbench/checkpoint/weights_digest.h"
#include "sftbench/data/dataset_catalog.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/text_dataset.h"
#include "sftbench/families/model_config.h"
#include "sftbench/jinja/chat_template.h"
#include "sftbench/plan/data_sets.h"
#include "sftbench/space/validity.h"
#include "sftbench/tokenizer/tokenizer.h"
#include "sftbench/translate/argument_options.h"
#include "sftbench/variants/schedule.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(std::string key, const RunError& error) {
  const std::string evidence = error.evidence().empty() ? "" : " (" + error.evidence() + ")";
  throw InputError({{{}, 0, std::move(key), error.what() + evidence, {}, {}}});
}

constexpr std::string_view kSet = "--set ";
constexpr std::string_view kOfWord =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";

// Where `word` stands in `text` as a whole one.
size_t find_word(std::string_view text, std::string_view word, size_t from = 0) {
  for (size_t at = text.find(word, from); at != text.npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || kOfWord.find(text[at - 1]) == kOfWord.npos;
    if (begins && (end == text.size() || kOfWord.find(text[end]) == kOfWord.npos)) return at;
  }
  return std::string_view::npos;
}

// A refusal in the words of a command line: "--input-column is given alone".
std::string with_options(std::string text) {
  for (const ArgumentOption& argument : argument_options()) {
    const std::string_view property = argument.property;
    const bool telling = property.find('_') != property.npos;
    for (size_t at = find_word(text, property); at != text.npos;
         at = find_word(text, property, at + 1)) {
      if (telling || at == 0) text.replace(at, property.size(), argument.option);
    }
  }
  return text;
}

// What options and files say, and --set beside them, and where.
class GivenNames {
 public:
  GivenNames(const LoadedSpace& loaded, const Selection& selection)
      : says_ranks_(selection.ranks != Selection().ranks) {
    for (const GivenOption& given : selection.arguments)
      names_.emplace_back(given.option->property, given.option->option);
    for (const GivenValue& value : loaded.file.values)
      names_.emplace_back(value.property, value.source);
    for (const std::string& text : selection.assignments) {
      const std::string property = text.substr(0, text.find('='));
      names_.emplace_back(property, std::string(kSet) + property);
    }
  }

  // Of the property; empty: nobody gave it.
  std::string source(std::string_view property) const {
    const auto found = std::find_if(names_.begin(), names_.end(),
                                    [&](const auto& name) { return name.first == property; });
    return found == names_.end() ? std::string() : found->second;
  }

  // Of the property that `refusal` names first.
  std::string source_in(std::string_view refusal) const {
    if (refusal.starts_with("learning-rate schedule ")) {
      const std::string options = source("lr_scheduler_kwargs");
      return options.empty() ? source("lr_scheduler_type") : options;
    }
    if (refusal.starts_with("the tokenizer ")) return source("tokenizer_name_or_path");
    if (says_ranks_ && find_word(refusal, "--ranks") != refusal.npos) return "--ranks";
    size_t first = refusal.npos;
    std::string found;
    for (const auto& [property, place] : names_) {
      const size_t at = find_word(refusal, property);
      const bool telling = property.find('_') != property.npos;
      if (at >= first || (!telling && at != 0)) continue;
      first = at;
      found = place;
    }
    return found;
  }

  // Of a file the key alone: "args.yaml:3: training.cutoff_len" is cutoff_len. What follows from a
  // file has none.
  std::vector<std::pair<std::string, std::string>> keys() const {
    std::vector<std::pair<std::string, std::string>> all;
    for (const auto& [property, place] : names_) {
      const size_t path = place.rfind(": ");
      std::string key = path == place.npos ? place : place.substr(path + 2);
      key.erase(0, key.rfind('.') + 1);
      if (key.find(' ') == key.npos) all.emplace_back(property, std::move(key));
    }
    return all;
  }

 private:
  const bool says_ranks_;
  std::vector<std::pair<std::string, std::string>> names_;  // property, where it is given
};

// Of what resolve() finds: what is the command line's, whatever else an entity says.
void refuse_if_own(const RunError& error, const LoadedSpace& loaded, const GivenNames& given,
                   bool fetches) {
  const std::string_view text = error.what();
  const bool own_model = !loaded.model_path.empty();
  std::string source = given.source_in(text);
  const bool of_tokenizer = !source.empty() && source == given.source("tokenizer_name_or_path");
  if (error.code() == ReasonCode::kWeights && of_tokenizer) {
    if (fetches) return;  // what is not here yet
    refuse(source, error);
  }
  if (error.code() == ReasonCode::kWeights && own_model) refuse("--model", error);
  if (error.code() == ReasonCode::kData && own_model && text == no_chat_template(loaded.model_path))
    refuse("--model", error);
  if (error.code() != ReasonCode::kUnsupported) return;
  if (source.empty() && own_model && text.starts_with("target_modules ")) source = "--lora-targets";
  if (source.empty()) return;
  for (const Dimension& dimension : loaded.space.dimensions) {
    const bool varies = dimension.size() > 1;
    if (varies && find_word(text, dimension.property().identifier) != text.npos) return;
  }
  const bool of_set = source.starts_with(kSet), of_option = source.starts_with("--") && !of_set;
  std::string message = of_option ? with_options(error.what()) : std::string(error.what());
  const std::string word = (of_set ? source.substr(kSet.size()) : source) + " ";
  if (message.starts_with(word) && !message.starts_with(word + "and "))
    message.erase(0, word.size());
  refuse(source, RunError(error.code(), message, error.evidence()));
}

void require_first_entry(const DataSource& source, const Tokenizer& tokenizer, int64_t vocabulary) {
  std::error_code unreadable;
  if (!fs::exists(source.path, unreadable)) return;  // a prediction needs no data
  TextDatasetOptions options = text_options(source, vocabulary);
  if (!source.chat_template.empty()) {
    options.chat_template = {source.chat_template, "chat_template"};
    options.now = std::time(nullptr);
  }
  try {
    TextDataset dataset(open_entries(source.path, 1), tokenizer, options);
    if (dataset.size() > 0) dataset.encode({0}, 1);
  } catch (const RunError& error) {
    throw InputError(error.what());
  }
}

// Then a mistake in one of them is a cell's.
bool has_several_data(const Space& space) {
  return std::any_of(space.dimensions.begin(), space.dimensions.end(), [](const Dimension& of) {
    const std::string& property = of.property().identifier;
    return of.size() > 1 && (property.ends_with("_data_path") || property == "data_mixture");
  });
}

// Of each set, and of what is evaluated.
void require_first_entries(const TrainingJob& job) {
  if (!job.data.image_field.empty() || lacks_chat_template(job)) return;
  const std::string& directory = job.model.tokenizer_directory;
  Tokenizer tokenizer =
      directory.empty() ? Tokenizer::builtin() : Tokenizer::from_directory(directory);
  complete_special_tokens(tokenizer);
  const int64_t vocabulary = parse_model_config(job.model.hf_config).vocab_size;
  for (const DataSet& set : data_sets(job)) require_first_entry(set.source, tokenizer, vocabulary);
  if (job.evaluation.path.empty()) return;
  DataSource evaluated = job.data;
  evaluated.path = job.evaluation.path;
  require_first_entry(evaluated, tokenizer, vocabulary);
}

// The tokenizer, and of the weights the headers, which say whether the files are whole.
void require_readable_files(const fs::path& folder, const ResolveOptions& options) {
  std::error_code error;
  if (fs::exists(folder / "tokenizer.json", error)) (void)Tokenizer::from_directory(folder);
  if (options.weights != "random") (void)open_checkpoint(folder);
}

// Keys need the digest of the weights, and nothing else is told meanwhile.
void tell_of_first_look(const fs::path& folder) {
  constexpr uintmax_t kWorthTellingBytes = uintmax_t{4} << 30;
  uintmax_t bytes = 0;
  try {
    for (const fs::path& file : weights_files(folder)) {
      if (!digest_is_kept(file)) bytes += fs::file_size(file);
    }
  } catch (const std::exception&) {  // refused where they are read
  }
  if (bytes < kWorthTellingBytes) return;
  spdlog::info("reading the weights of {} once, {}, to tell them from others", folder.string(),
               bytes_text(static_cast<double>(bytes)));
}

}  // namespace

void refuse_job_mistakes(const TrainingJob& job, const std::string& path) {
  const OptimizerPlan& plan = job.optimizer;
  const int64_t steps = job.batches.max_steps;
  SchedulePlan schedule;
  schedule.name = plan.schedule;
  schedule.total_steps = steps > 0 ? steps : -1;
  schedule.learning_rate = plan.learning_rate;
  try {
    schedule.options = parse_schedule_options(plan.schedule, plan.schedule_options);
    if (steps > 0)
      schedule.warmup_steps = count_warmup_steps(steps, plan.warmup_steps, plan.warmup_ratio);
    check_schedule(schedule);
  } catch (const RunError& error) {
    refuse(path + ": optimizer.schedule", error);
  }
  std::error_code absent;
  const std::string& tokenizer = job.model.tokenizer_directory;
  const bool is_here = tokenizer.empty() || fs::exists(tokenizer, absent);
  if (is_here && !is_default_dataset(job.data.dataset_id, job.data.path))
    require_first_entries(job);
}

std::string in_given_words(std::string note, const LoadedSpace& loaded,
                           const Selection& selection) {
  for (const auto& [property, key] : GivenNames(loaded, selection).keys()) {
    const bool telling = property.find('_') != property.npos;
    for (size_t at = find_word(note, property); at != note.npos;
         at = find_word(note, property, at + key.size())) {
      if (telling || at == 0) note.replace(at, property.size(), key);
    }
  }
  return note;
}

void refuse_own_mistakes(const LoadedSpace& loaded, const Selection& selection,
                         const ResolveOptions& options) {
  const Space& space = loaded.space;
  const bool own_model = !loaded.model_path.empty();
  const bool reads_weights = options.weights != "random" && options.backend != kBackendSimulate;
  if (own_model && reads_weights) tell_of_first_look(loaded.model_path);
  const bool has_options = !selection.arguments.empty() || !loaded.file.values.empty();
  const bool own =
      selection.space_path.empty() && (own_model || has_options || !selection.assignments.empty());
  if (!own || options.backend == kBackendSimulate || space.entity_count() == 0) return;
  const MeasurementRequest request = make_request(space.entity(0), space.experiments.front());
  const Catalog& catalog = Catalog::shipped();
  if (!validate(request.inputs, catalog.models).empty()) return;
  TrainingJob job;
  try {
    job = resolve(request, loaded.settings, options, catalog).job;
  } catch (const RunError& error) {
    // Of --set alone it is the verdict of an entity.
    if (own_model || has_options) {
      refuse_if_own(error, loaded, GivenNames(loaded, selection),
                    selection.fetch || loaded.settings.fetch_weights);
    }
    return;
  }
  if (own_model) require_readable_files(loaded.model_path, options);
  const bool own_data = request.inputs.value("training_data_path", Json()).is_string() ||
                        request.inputs.contains("data_mixture");
  if (own_data && !has_several_data(space)) require_first_entries(job);
}

}  // namespace sftbench
