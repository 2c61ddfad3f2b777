#include "engine/prepare_data.h"

#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json.h"
#include "sftbench/base/json_text.h"
#include "sftbench/data/jsonl.h"
#include "sftbench/data/packing.h"
#include "sftbench/data/token_cache.h"

namespace sftbench {
namespace {

constexpr const char* kPacked = "packed";

Padding parse_padding(const std::string& padding) {
  if (padding == "longest") return Padding::kLongest;
  if (padding == "max_length") return Padding::kMaxLength;
  if (padding == "none" || padding == kPacked) return Padding::kNone;
  throw unsupported_choice("padding", padding, known_paddings());
}

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

// One step without loss ends a run when it comes to it; a run that has nothing else need not begin.
void require_responses(const TextDataset& dataset, size_t entries, const DataSource& data) {
  if (static_cast<size_t>(dataset.entries_without_response()) < entries) return;
  throw RunError(ReasonCode::kData,
                 data.path + ": none of the " + std::to_string(entries) +
                     " entries that this run uses has the response template " +
                     json_text(Json(data.response_template)) + " among its first " +
                     std::to_string(data.model_max_length) +
                     " tokens (model_max_length), so no position bears loss; expected it in front "
                     "of each entry's response");
}

int64_t pad_id_of(const Tokenizer& tokenizer) {
  const std::optional<int32_t> id = tokenizer.token_id(tokenizer.special_tokens().pad);
  check(id.has_value(), "a completed tokenizer has a pad token");
  return *id;
}

// Tokenizes, remembering the counts in the job's cache when it has one.
void encode(TextDataset& dataset, const std::vector<int64_t>& entries, const TrainingJob& job,
            int threads, WorkCount& work) {
  if (job.data.token_cache_directory.empty()) {
    return dataset.encode(entries, threads, nullptr, &work);
  }
  TokenCountCache counts(job.data.token_cache_directory,
                         {.tokenizer_digest = tokenizer_digest(job.model.tokenizer_directory),
                          .dataset_digest = digest_file(job.data.path),
                          .text_field = job.data.text_field,
                          .entries = dataset.size()});
  dataset.encode(entries, threads, &counts, &work);
  counts.save();
}

std::vector<int64_t> all_entries(const TextDataset& dataset) {
  std::vector<int64_t> entries(static_cast<size_t>(dataset.size()));
  std::iota(entries.begin(), entries.end(), 0);
  return entries;
}

std::vector<std::vector<int64_t>> pack(const TextDataset& dataset) {
  std::vector<int64_t> lengths;
  for (const int64_t entry : all_entries(dataset)) {
    lengths.push_back(static_cast<int64_t>(dataset.entry(entry).input_ids.size()));
  }
  return pack_entries(lengths, dataset.options().model_max_length);
}

}  // namespace

Tokenizer prepare_tokenizer(const ModelSource& model) {
  Tokenizer tokenizer = model.tokenizer_directory.empty()
                            ? Tokenizer::builtin()
                            : Tokenizer::from_directory(model.tokenizer_directory);
  complete_special_tokens(tokenizer);
  return tokenizer;
}

std::vector<TokenizerFile> saved_tokenizer(const ModelSource& model) {
  return tokenizer_files(model.tokenizer_directory, prepare_tokenizer(model));
}

std::string tokenizer_origin(const ModelSource& model) {
  return model.tokenizer_directory.empty() ? "builtin" : model.tokenizer_directory;
}

TrainingData prepare_data(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                          int64_t rank, WorkCount& work) {
  const Padding padding = parse_padding(job.data.padding);
  TextDataset dataset(JsonlFile(job.data.path), tokenizer,
                      {.text_field = job.data.text_field,
                       .response_template = job.data.response_template,
                       .model_max_length = job.data.model_max_length});
  const int64_t pad_id = pad_id_of(tokenizer);
  if (job.data.padding == kPacked) {
    // Which entries share a row depends on the lengths of all.
    encode(dataset, all_entries(dataset), job, threads, work);
    require_responses(dataset, static_cast<size_t>(dataset.size()), job.data);
    std::vector<std::vector<int64_t>> packs = pack(dataset);
    StepPlan plan = plan_steps(job, static_cast<int64_t>(packs.size()));
    return {std::move(dataset), std::move(plan), std::move(packs), padding, pad_id};
  }
  StepPlan plan = plan_steps(job, dataset.size());
  const std::vector<int64_t> entries = plan.entries_used(rank, plan.total_steps());
  encode(dataset, entries, job, threads, work);
  require_responses(dataset, entries.size(), job.data);
  return {std::move(dataset), std::move(plan), {}, padding, pad_id};
}

}  // namespace sftbench
