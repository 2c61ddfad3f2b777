#include "engine/prepare_text.h"

#include <ctime>
#include <numeric>
#include <utility>

#include "engine/encode_entries.h"
#include "sftbench/base/error.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/data/conversation.h"
#include "sftbench/data/entry_file.h"
#include "sftbench/data/packing.h"
#include "sftbench/families/model_config.h"

namespace sftbench {
namespace {

// A run that has nothing to learn from need not begin. Says which it was: nothing bears loss in the
// entries, or model_max_length cuts off what does.
void require_some_loss(const EncodedEntries& dataset, size_t entries, const DataSource& data) {
  if (data.model_max_length < 2) {
    throw RunError(ReasonCode::kData,
                   "model_max_length is 1, so no position bears loss: each is predicted from the "
                   "one before it; expected at least 2");
  }
  const DataAccount account = dataset.account();
  if (static_cast<size_t>(account.without_loss) < entries) return;
  const std::string none = data.path + ": none of the " + counted(entries, "entry", "entries") +
                           " that this run uses has a position that bears loss";
  if (account.without_loss_by_cut > 0) {
    throw RunError(ReasonCode::kData,
                   none + ": model_max_length " + std::to_string(data.model_max_length) +
                       " cuts it off in " + std::to_string(account.without_loss_by_cut) +
                       " of them; expected a larger one");
  }
  if (text_options(data, 0).seeks_response()) {
    throw RunError(ReasonCode::kData,
                   none + ": the response template " + json_text(Json(data.response_template)) +
                       " is in none of them; expected it in front of each entry's response, or "
                       "response_template None, under which all of an entry bears loss");
  }
  throw RunError(ReasonCode::kData,
                 none + (data.conversation_field.empty()
                             ? "; expected labels, or texts that bear it"
                             : "; expected messages of assistants that the chat template renders"));
}

std::vector<int64_t> numbers_up_to(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

std::vector<std::vector<int64_t>> pack(const EncodedEntries& dataset,
                                       const std::vector<int64_t>& entries) {
  std::vector<int64_t> lengths;
  for (const int64_t entry : entries) {
    lengths.push_back(dataset.length(entry));
  }
  std::vector<std::vector<int64_t>> packs = pack_entries(lengths, dataset.model_max_length());
  for (std::vector<int64_t>& pack : packs) {
    for (int64_t& number : pack) number = entries[static_cast<size_t>(number)];
  }
  return packs;
}

// Packs are made to train on: what is evaluated is padded.
Padding evaluation_padding(Padding padding) {
  return padding == Padding::kPacked ? Padding::kLongest : padding;
}

}  // namespace

TextPreparation::TextPreparation(const TrainingJob& job, const Tokenizer& tokenizer, int threads,
                                 int64_t rank, WorkCount& work)
    : job_(job), tokenizer_(tokenizer), threads_(threads), rank_(rank), work_(work) {}

PreparedData TextPreparation::prepare() {
  open_sets();
  PreparedData prepared = {training_data(), std::nullopt};
  if (job_.evaluation.evaluates()) prepared.evaluation = evaluation_data();
  return prepared;
}

std::shared_ptr<TextDataset> TextPreparation::open(const DataSource& source) const {
  TextDatasetOptions options =
      text_options(source, parse_model_config(job_.model.hf_config).vocab_size);
  options.invocation = invocation_of(job_, tokenizer_);
  if (!source.conversation_field.empty()) {
    if (source.chat_template.empty()) {
      throw RunError(ReasonCode::kData, no_chat_template(job_.model.tokenizer_directory));
    }
    options.chat_template = {source.chat_template, "chat_template"};
    options.now = std::time(nullptr);
  }
  try {
    return std::make_shared<TextDataset>(open_entries(source.path), tokenizer_, options);
  } catch (const InputError& error) {  // a file of a folder, or one that changed since the start
    throw RunError(ReasonCode::kData, error.what());
  }
}

void TextPreparation::open_sets() {
  std::vector<std::shared_ptr<TextDataset>> texts;
  const std::vector<DataSet> sets = data_sets(job_);
  std::vector<int64_t> sizes;
  for (const DataSet& from : sets) {
    texts.push_back(open(from.source));
    sizes.push_back(texts.back()->size());
    sets_.push_back({from, texts.back()});
  }
  entries_ = divide_entries(job_, sets, sizes);
  mixture_ = std::make_shared<MixedTexts>(std::move(texts));
}

bool TextPreparation::is_plain() const {
  return sets_.size() == 1 && std::ssize(entries_.training) == mixture_->size();
}

void TextPreparation::encode(const std::vector<int64_t>& entries) {
  for (size_t i = 0; i < sets_.size(); ++i) {
    encode_entries(*sets_[i].texts, mixture_->entries_of(i, entries), sets_[i].from.source,
                   job_.model.tokenizer_directory, threads_, work_);
  }
}

// Another rank's share may have what this one's lacks.
void TextPreparation::require_responses(size_t entries) const {
  if (job_.device.ranks > 1 && job_.data.model_max_length > 1) return;
  require_some_loss(*mixture_, entries, sets_.front().from.source);
}

TrainingData TextPreparation::training_data() {
  std::vector<int64_t> order = entries_.training;
  const Padding padding = job_.data.padding;
  if (padding == Padding::kPacked) {
    // Which entries share a row depends on the lengths of all.
    encode(order);
    require_responses(order.size());
    std::vector<std::vector<int64_t>> packs = pack(*mixture_, order);
    StepPlan plan = plan_steps(job_, static_cast<int64_t>(packs.size()));
    return {mixture_, std::move(plan), Packs(packs), padding, pad_id_of(tokenizer_), nullptr, {}};
  }
  StepPlan plan = plan_steps(job_, static_cast<int64_t>(order.size()));
  Packs units;
  if (!is_plain()) units = Packs::of_one(std::move(order));
  const std::vector<int64_t> entries = unpacked(units_to_encode(job_, plan, rank_), units);
  encode(entries);
  require_responses(entries.size());
  return {mixture_, std::move(plan), std::move(units), padding, pad_id_of(tokenizer_), nullptr, {}};
}

EvaluationData TextPreparation::evaluation_of(std::shared_ptr<const EncodedEntries> dataset,
                                              const std::vector<int64_t>& entries) const {
  const int64_t own_size = job_.evaluation.per_device_batch_size;
  const int64_t generated = std::min(job_.evaluation.generated, std::ssize(entries));
  return {std::move(dataset),
          evaluation_batches(entries, own_size > 0 ? own_size : job_.batches.per_device_batch_size,
                             data_ranks(job_), rank_),
          {entries.begin(), entries.begin() + generated},
          evaluation_padding(job_.data.padding),
          pad_id_of(tokenizer_)};
}

EvaluationData TextPreparation::evaluation_data() {
  const auto entries_of = [](const EvaluationData& data) {
    std::vector<int64_t> entries = data.generated;
    for (const EvaluationData::Batch& batch : data.batches) {
      entries.insert(entries.end(), batch.entries.begin(), batch.entries.end());
    }
    return entries;
  };
  if (job_.evaluation.path.empty()) {
    EvaluationData data = evaluation_of(mixture_, entries_.evaluation);
    encode(entries_of(data));
    return data;
  }
  DataSource source = job_.data;
  source.path = job_.evaluation.path;
  const std::shared_ptr<TextDataset> texts = open(source);
  EvaluationData data = evaluation_of(texts, numbers_up_to(texts->size()));
  encode_entries(*texts, entries_of(data), source, job_.model.tokenizer_directory, threads_, work_);
  if (job_.device.ranks == 1) {
    require_some_loss(*texts, static_cast<size_t>(texts->size()), source);
  }
  return data;
}

}  // namespace sftbench
