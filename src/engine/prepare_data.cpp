#include "engine/prepare_data.h"

#include <numeric>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sftbench/base/data_files.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/data/chat_template.h"
#include "sftbench/data/conversation.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/image_scaling_file.h"
#include "sftbench/data/jsonl.h"
#include "sftbench/data/packing.h"
#include "sftbench/data/parquet_library.h"
#include "sftbench/data/token_cache.h"
#include "sftbench/data/vision_dataset.h"
#include "sftbench/families/model_config.h"

namespace sftbench {
namespace {

// `units`: what batches are made of, entries or packs.
StepPlan plan_steps(const TrainingJob& job, int64_t units) {
  return StepPlan({.entries = units,
                   .per_device_batch_size = job.batches.per_device_batch_size,
                   .gradient_accumulation_steps = job.batches.gradient_accumulation_steps,
                   .max_steps = job.batches.max_steps,
                   .num_train_epochs = job.batches.num_train_epochs,
                   .ranks = job.device.ranks,
                   .seed = job.seed});
}

TextDatasetOptions text_options(const DataSource& data, int64_t vocabulary) {
  return {.pretokenized = data.pretokenized,
          .conversation_field = data.conversation_field,
          .entry_template = data.entry_template,
          .input_field = data.input_field,
          .output_field = data.output_field,
          .text_field = data.text_field,
          .response_template = data.response_template,
          .model_max_length = data.model_max_length,
          .vocabulary = vocabulary};
}

TextDatasetOptions text_options(const TrainingJob& job) {
  TextDatasetOptions options =
      text_options(job.data, parse_model_config(job.model.hf_config).vocab_size);
  if (job.data.conversation_field.empty()) return options;
  if (job.data.chat_template.empty()) {
    throw RunError(ReasonCode::kData, no_chat_template(job.model.tokenizer_directory));
  }
  options.chat_template = {job.data.chat_template, "chat_template"};
  options.now = std::time(nullptr);
  return options;
}

// What the counts of a cache are counts of. Nothing has to be counted where ids are given.
std::string counted_text(const DataSource& data) {
  if (!data.conversation_field.empty()) {
    return "conversations " + data.conversation_field + " " + digest(data.chat_template);
  }
  if (!data.entry_template.empty()) return "template " + data.entry_template;
  if (!data.input_field.empty()) return data.input_field + " and " + data.output_field;
  return data.text_field;
}

// One step without loss ends a run when it comes to it; a run that has nothing else need not begin.
void require_responses(const EncodedEntries& dataset, size_t entries, const DataSource& data) {
  if (static_cast<size_t>(dataset.entries_without_response()) < entries) return;
  if (!text_options(data, 0).seeks_response()) {
    throw RunError(ReasonCode::kData,
                   data.path + ": none of the " + std::to_string(entries) +
                       " entries that this run uses has a position that bears loss among its "
                       "first " +
                       std::to_string(data.model_max_length) +
                       " tokens (model_max_length) but the first; expected one");
  }
  throw RunError(ReasonCode::kData,
                 data.path + ": none of the " + std::to_string(entries) +
                     " entries that this run uses has the response template " +
                     json_text(Json(data.response_template)) + " among its first " +
                     std::to_string(data.model_max_length) +
                     " tokens (model_max_length), so no position bears loss; expected it in front "
                     "of each entry's response, or response_template None, under which all of an "
                     "entry bears loss");
}

int64_t pad_id_of(const Tokenizer& tokenizer) {
  const std::optional<int32_t> id = tokenizer.token_id(tokenizer.special_tokens().pad);
  check(id.has_value(), "a completed tokenizer has a pad token");
  return *id;
}

// Tokenizes, remembering the counts in the job's cache when it has one.
template <typename Dataset>
void encode(Dataset& dataset, const std::vector<int64_t>& entries, const TrainingJob& job,
            int threads, WorkCount& work) {
  if (job.data.token_cache_directory.empty() || job.data.pretokenized) {
    return dataset.encode(entries, threads, nullptr, &work);
  }
  TokenCountCache counts(job.data.token_cache_directory,
                         {.tokenizer_digest = tokenizer_digest(job.model.tokenizer_directory),
                          .dataset_digest = digest_data(job.data.path),
                          .text_field = counted_text(job.data),
                          .entries = dataset.size()});
  dataset.encode(entries, threads, &counts, &work);
  counts.save();
}

std::vector<int64_t> all_entries(const TextDataset& dataset) {
  std::vector<int64_t> entries(static_cast<size_t>(dataset.size()));
  std::iota(entries.begin(), entries.end(), 0);
  return entries;
}

std::vector<std::vector<int64_t>> pack(const TextDataset& dataset,
                                       const std::vector<int64_t>& entries) {
  std::vector<int64_t> lengths;
  for (const int64_t entry : entries) {
    lengths.push_back(static_cast<int64_t>(dataset.entry(entry).input_ids.size()));
  }
  std::vector<std::vector<int64_t>> packs =
      pack_entries(lengths, dataset.options().model_max_length);
  for (std::vector<int64_t>& pack : packs) {
    for (int64_t& number : pack) number = entries[static_cast<size_t>(number)];
  }
  return packs;
}

// --- what is evaluated ---------------------------------------------------------------------------

// A share of the entries, and the rest of them.
struct Split {
  std::vector<int64_t> training;
  std::vector<int64_t> evaluation;  // in an order drawn from the seed
};

Split split_entries(const TextDataset& dataset, const TrainingJob& job) {
  Split split = {all_entries(dataset), {}};
  if (!job.evaluation.evaluates() || !job.evaluation.path.empty()) return split;
  split.evaluation = held_out_entries(dataset.size(), job.evaluation.split, job.seed);
  if (split.evaluation.size() == split.training.size()) {
    throw RunError(ReasonCode::kData, job.data.path + " has " + std::to_string(dataset.size()) +
                                          " entries, of which eval_split leaves none to train on");
  }
  const std::set<int64_t> evaluated(split.evaluation.begin(), split.evaluation.end());
  std::erase_if(split.training,
                [&evaluated](int64_t entry) { return evaluated.count(entry) > 0; });
  return split;
}

std::vector<std::vector<int64_t>> one_by_one(const std::vector<int64_t>& entries) {
  std::vector<std::vector<int64_t>> units;
  for (const int64_t entry : entries) units.push_back({entry});
  return units;
}

// Packs are made to train on: what is evaluated is padded.
Padding evaluation_padding(Padding padding) {
  return padding == Padding::kPacked ? Padding::kLongest : padding;
}

EvaluationData evaluation_data(const std::shared_ptr<TextDataset>& dataset,
                               const std::vector<int64_t>& entries, const TrainingJob& job,
                               const Tokenizer& tokenizer, int threads, int64_t rank,
                               WorkCount& work) {
  const int64_t own_size = job.evaluation.per_device_batch_size;
  EvaluationData data = {
      dataset,
      evaluation_batches(entries, own_size > 0 ? own_size : job.batches.per_device_batch_size,
                         job.device.ranks, rank),
      evaluation_padding(job.data.padding), pad_id_of(tokenizer)};
  std::set<int64_t> own;
  for (const EvaluationData::Batch& batch : data.batches) {
    own.insert(batch.entries.begin(), batch.entries.end());
  }
  dataset->encode({own.begin(), own.end()}, threads, nullptr, &work);
  return data;
}

EvaluationData data_of_own_file(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                                int64_t rank, WorkCount& work) {
  const auto dataset = std::make_shared<TextDataset>(open_entries(job.evaluation.path), tokenizer,
                                                     text_options(job));
  EvaluationData data =
      evaluation_data(dataset, all_entries(*dataset), job, tokenizer, threads, rank, work);
  DataSource source = job.data;
  source.path = job.evaluation.path;
  if (job.device.ranks == 1) {
    require_responses(*dataset, static_cast<size_t>(dataset->size()), source);
  }
  return data;
}

std::optional<EvaluationData> prepare_evaluation(const std::shared_ptr<TextDataset>& dataset,
                                                 const Split& split, const TrainingJob& job,
                                                 const Tokenizer& tokenizer, int threads,
                                                 int64_t rank, WorkCount& work) {
  if (!job.evaluation.evaluates()) return std::nullopt;
  if (!job.evaluation.path.empty()) {
    return data_of_own_file(job, tokenizer, threads, rank, work);
  }
  return evaluation_data(dataset, split.evaluation, job, tokenizer, threads, rank, work);
}

TrainingData prepare_text_data(const std::shared_ptr<TextDataset>& dataset, const Split& split,
                               const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                               int64_t rank, WorkCount& work) {
  if (job.data.padding == Padding::kPacked) {
    // Which entries share a row depends on the lengths of all.
    encode(*dataset, split.training, job, threads, work);
    require_responses(*dataset, split.training.size(), job.data);
    std::vector<std::vector<int64_t>> packs = pack(*dataset, split.training);
    StepPlan plan = plan_steps(job, static_cast<int64_t>(packs.size()));
    return {dataset, std::move(plan), std::move(packs), job.data.padding, pad_id_of(tokenizer),
            nullptr, {}};
  }
  // What an epoch shuffles; none: all entries.
  std::vector<std::vector<int64_t>> units;
  if (!split.evaluation.empty()) units = one_by_one(split.training);
  StepPlan plan = plan_steps(job, static_cast<int64_t>(split.training.size()));
  const std::vector<int64_t> entries =
      unpacked(plan.entries_used(rank, plan.total_steps()), units);
  encode(*dataset, entries, job, threads, work);
  require_responses(*dataset, entries.size(), job.data);
  return {dataset, std::move(plan), std::move(units), job.data.padding, pad_id_of(tokenizer),
          nullptr, {}};
}

// --- images --------------------------------------------------------------------------------------

std::optional<VisionConfig> vision_of(const ModelSource& model) {
  return parse_model_config(model.hf_config).vision;
}

ChatForm chat_form(const ModelSource& model) {
  if (!model.tokenizer_directory.empty()) {
    if (const auto form = chat_form_of(model.tokenizer_directory)) return *form;
  }
  const Json text = model.hf_config.value("text_config", Json::object());
  return text.value("model_type", Json()) == "granite" ? ChatForm::kGraniteVision
                                                       : ChatForm::kLlavaMistral;
}

ImageScaling image_scaling(const ModelSource& model, const VisionConfig& vision) {
  if (!model.tokenizer_directory.empty()) {
    if (const auto scaling = read_image_scaling(model.tokenizer_directory, vision)) return *scaling;
  }
  return default_scaling(vision);
}

// The placeholder of images. InputError where the files of a model do not agree on it.
void add_placeholder(Tokenizer& tokenizer, const ModelSource& model, const VisionConfig& vision) {
  const std::optional<int32_t> id = tokenizer.token_id(kImagePlaceholder);
  if (!id) {
    tokenizer.add_special_token(kImagePlaceholder);
  } else if (*id != vision.image_token) {
    throw InputError(model.tokenizer_directory + ": the token " + kImagePlaceholder + " has id " +
                     std::to_string(*id) + ", and image_token_index of config.json is " +
                     std::to_string(vision.image_token) + "; expected the same");
  }
}

void require_vision_fits(const TrainingJob& job, const std::optional<VisionConfig>& vision,
                         Padding padding) {
  if (!vision) {
    throw RunError(ReasonCode::kUnsupported, "model_name " + job.model.name +
                                                 " reads no images, and the dataset " +
                                                 job.data.dataset_id +
                                                 " has some; granite-vision-3.2-2b and "
                                                 "llava-v1.6-mistral-7b read them");
  }
  if (row_of(padding).one_row) {
    throw RunError(ReasonCode::kUnsupported,
                   std::string("padding ") + name_of(padding) +
                       ": entries with images stand one in a row; longest or max_length works");
  }
  if (job.tuning == TuningMethod::kPrompt) {
    throw RunError(ReasonCode::kUnsupported,
                   "prompt tuning on images: this version trains its virtual tokens on texts "
                   "alone; full and lora train on images");
  }
}

TrainingData prepare_vision_data(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                                 int64_t rank, WorkCount& work, Padding padding) {
  const std::optional<VisionConfig> vision = vision_of(job.model);
  require_vision_fits(job, vision, padding);
  const std::unique_ptr<ParquetLibrary> parquet = load_parquet_library();
  const auto dataset = std::make_shared<VisionDataset>(
      parquet->read_chats(job.data.path, job.data.text_field, job.data.image_field), tokenizer,
      VisionDatasetOptions{job.data.model_max_length, *vision, chat_form(job.model)});
  StepPlan plan = plan_steps(job, dataset->size());
  try {
    encode(*dataset, plan.entries_used(rank, plan.total_steps()), job, threads, work);
  } catch (const InputError& error) {
    throw RunError(ReasonCode::kData, error.what());
  }
  return {dataset,
          std::move(plan),
          {},
          padding,
          pad_id_of(tokenizer),
          dataset,
          image_scaling(job.model, *vision)};
}

}  // namespace

Tokenizer prepare_tokenizer(const ModelSource& model) {
  Tokenizer tokenizer = model.tokenizer_directory.empty()
                            ? Tokenizer::builtin()
                            : Tokenizer::from_directory(model.tokenizer_directory);
  complete_special_tokens(tokenizer);
  if (const auto vision = vision_of(model)) add_placeholder(tokenizer, model, *vision);
  return tokenizer;
}

std::vector<TokenizerFile> saved_tokenizer(const ModelSource& model) {
  return tokenizer_files(model.tokenizer_directory, prepare_tokenizer(model));
}

std::string tokenizer_origin(const ModelSource& model) {
  return model.tokenizer_directory.empty() ? "builtin" : model.tokenizer_directory;
}

PreparedData prepare_data(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                          int64_t rank, WorkCount& work) {
  if (!job.data.image_field.empty()) {
    if (job.evaluation.evaluates()) {
      throw RunError(ReasonCode::kUnsupported,
                     "evaluation on images: this version evaluates on texts; eval_strategy no "
                     "trains on images");
    }
    return {prepare_vision_data(job, tokenizer, threads, rank, work, job.data.padding), {}};
  }
  const auto dataset =
      std::make_shared<TextDataset>(open_entries(job.data.path), tokenizer, text_options(job));
  const Split split = split_entries(*dataset, job);
  TrainingData training = prepare_text_data(dataset, split, job, tokenizer, threads, rank, work);
  return {std::move(training),
          prepare_evaluation(dataset, split, job, tokenizer, threads, rank, work)};
}

}  // namespace sftbench
