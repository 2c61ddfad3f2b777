#include "engine/job_identity.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "sftbench/base/data_files.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/fields.h"
#include "sftbench/base/json_text.h"
#include "sftbench/checkpoint/weights_digest.h"
#include "sftbench/data/token_cache.h"
#include "sftbench/plan/training_job_fields.h"

namespace sftbench {
namespace {

constexpr size_t kDigestLetters = 12;  // enough to tell two files apart, few enough to read
constexpr const char* kBase = "the weights' files (digest)";
// Names, which say what differs, and are no difference where the content is the same.
const std::set<std::string> kNames = {"model", "dataset"};

std::string shortened(const std::string& digest) {
  return digest.substr(0, kDigestLetters);
}

// Takes the fields that have to be the same, by the names of their tags.
class SameFields {
 public:
  template <typename Value, typename... More>
  void operator()(const char*, const Value& value, const OnResuming& tag, const More&...) {
    if (tag.name != nullptr) identity_[tag.name] = value;
  }

  template <HasFields Section>
  void operator()(const char*, Section& section) {
    fields(*this, section);
  }

  Json take() { return std::move(identity_); }

 private:
  Json identity_ = Json::object();
};

Json same_fields(TrainingJob job) {
  SameFields visitor;
  fields(visitor, job);
  return visitor.take();
}

// With the content of files, wherever they lie.
Json mixture_identity(Json mixture) {
  for (Json& set : mixture["sets"]) set["path"] = shortened(digest_data(set.at("path")));
  return mixture;
}

// Follows from several fields, or from what is in a file that a field names.
Json derived_values(const TrainingJob& job) {
  Json derived = {
      {"config.json (digest)", shortened(digest(json_text(job.model.hf_config)))},
      {"weights", job.model.weights_directory.empty() ? "random" : "files"},
      {"the dataset's file (digest)", shortened(digest_data(job.data.path))},
      {"the tokenizer's files (digest)",
       shortened(tokenizer_digest(job.model.tokenizer_directory))},
      {"entries in a step", job.batches.per_device_batch_size *
                                job.batches.gradient_accumulation_steps * data_ranks(job)},
      {"betas", job.optimizer.betas}};
  // Where the model itself is trained, the checkpoint has all of it.
  if (!row_of(job.tuning).trains_weights && !job.model.weights_directory.empty()) {
    derived[kBase] = shortened(weights_digest(job.model.weights_directory));
  }
  if (row_of(job.tuning).adds_adapters) {
    derived["lora rank"] = job.lora.rank;
    derived["lora alpha"] = job.lora.alpha;
    derived["lora dropout"] = job.lora.dropout;
    derived["lora target_modules"] = job.lora.target_modules;
  }
  // Checkpoints of before there were these say nothing of them.
  if (!job.lora.invocation_string.empty()) {
    derived["alora_invocation_string"] = job.lora.invocation_string;
  }
  if (job.lora.use_rslora) derived["use_rslora"] = true;
  if (job.lora.use_dora) derived["use_dora"] = true;
  if (!job.lora.modules_to_save.empty()) derived["modules_to_save"] = job.lora.modules_to_save;
  if (!job.lora.rank_pattern.empty()) derived["rank_pattern"] = job.lora.rank_pattern;
  if (!job.lora.alpha_pattern.empty()) derived["alpha_pattern"] = job.lora.alpha_pattern;
  if (job.evaluation.split > 0) derived["eval_split"] = job.evaluation.split;
  if (job.data.most_entries > 0) derived["max_train_samples"] = job.data.most_entries;
  if (job.data.sampling_seed != DataSource().sampling_seed) {
    derived["sampling_seed"] = job.data.sampling_seed;
  }
  if (!job.data.mixture.empty()) derived["data_mixture"] = mixture_identity(job.data.mixture);
  if (job.tuning == TuningMethod::kPrompt) derived["virtual tokens"] = job.prompt.virtual_tokens;
  return derived;
}

// Checkpoints list them in this order, which their digest depends on. New ones follow.
constexpr std::array kOrder = {"model",
                               "config.json (digest)",
                               "weights",
                               "torch_dtype",
                               "mixed precision",
                               "seed",
                               "dataset",
                               "the dataset's file (digest)",
                               "the tokenizer's files (digest)",
                               "text field",
                               "response template",
                               "model_max_length",
                               "padding",
                               "entries in a step",
                               "tuning",
                               "lora rank",
                               "lora alpha",
                               "lora dropout",
                               "lora target_modules",
                               "virtual tokens",
                               "optimizer",
                               "learning_rate",
                               "weight_decay",
                               "betas"};

// A name stands for itself; a text that is empty, or has more than a name has, stands in quotes.
std::string text(const Json& value) {
  if (!value.is_string()) return json_text(value);
  const auto& words = value.get_ref<const std::string&>();
  const bool name = !words.empty() && std::all_of(words.begin(), words.end(), [](unsigned char c) {
    return c > ' ' && c != '"' && c != ';' && c != 0x7f;
  });
  return name ? words : json_text(value);
}

}  // namespace

Json identity_of(const TrainingJob& job) {
  Json values = same_fields(job);
  values.update(derived_values(job));
  Json identity = Json::object();
  for (const char* name : kOrder) {
    if (values.contains(name)) identity[name] = values[name];
  }
  identity.update(values);
  return identity;
}

std::string evaluated_data(const TrainingJob& job) {
  return job.evaluation.path.empty() ? "" : shortened(digest_data(job.evaluation.path));
}

std::string digest_of(const Json& identity) {
  return digest(json_text(identity));
}

std::vector<std::string> differences(const Json& saved, const Json& now) {
  std::vector<std::string> found;
  size_t names = 0;
  for (const auto& [name, value] : now.items()) {
    const auto before = saved.find(name);
    if (before != saved.end() && *before == value) continue;
    // Checkpoints of before there was this say nothing of it.
    if (before == saved.end() && name == kBase) continue;
    names += kNames.count(name);
    found.push_back(name + (before == saved.end() ? " was not known" : " was " + text(*before)) +
                    ", and is " + text(value));
  }
  for (const auto& [name, value] : saved.items()) {
    if (!now.contains(name)) found.push_back(name + " was " + text(value) + ", and is not known");
  }
  if (found.size() == names) found.clear();
  return found;
}

}  // namespace sftbench
