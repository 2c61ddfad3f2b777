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

// A run that has nothing to learn from need not begin. Says which it was: nothing bears loss in the entries, or
// model_max_length cuts off what does.
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

std::vector<int64_t> at_positions(const std::vector<int64_t>& entries,
                                  std::vector<int64_t> positions) {
  for (int64_t& position : positions) position = entries[static_cast<size_t>(position)];
  return positions;
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
  for (DataSet& from : data_sets(job_)) {
    texts.push_back(open(from.source));
    const int64_t most = job_.data.most_entries, size = texts.back()->size();
    EntrySplit split = split_entries(most > 0 ? std::min(most, size) : size, from.held_out,
                                     job_.data.sampling_seed, from.trained);
    if (split.training.empty() && from.trained != 0) {
      throw RunError(ReasonCode::kData, from.source.path + " has " +
                                            counted(texts.back()->size(), "entry", "entries") +
                                            ", of which eval_split leaves none to train "
                                            "on");
    }
    sets_.push_back({std::move(from), texts.back(), std::move(split)});
  }
  mixture_ = std::make_shared<MixedTexts>(std::move(texts));
  const EvaluationPlan& evaluation = job_.evaluation;
  if (!evaluation.evaluates() || !evaluation.path.empty() || evaluation.split < 1) return;
  const std::vector<int64_t> left = left_by_sets();
  split_of_all_ = split_entries(std::ssize(left), evaluation.split, job_.data.sampling_seed);
  if (!split_of_all_->training.empty()) return;
  throw RunError(ReasonCode::kData, "there are " + counted(left.size(), "entry", "entries") +
                                        ", of which eval_split leaves none to train on");
}

bool TextPreparation::is_plain() const {
  return sets_.size() == 1 && !split_of_all_ &&
         std::ssize(sets_.front().split.training) == sets_.front().texts->size();
}

std::vector<int64_t> TextPreparation::left_by_sets() const {
  std::vector<int64_t> entries;
  for (size_t i = 0; i < sets_.size(); ++i) {
    for (const int64_t entry : sets_[i].split.training)
      entries.push_back(mixture_->begin(i) + entry);
  }
  return entries;
}

std::vector<int64_t> TextPreparation::training_order() const {
  const std::vector<int64_t> entries = left_by_sets();
  if (split_of_all_) return at_positions(entries, split_of_all_->training);
  std::vector<int64_t> lengths;
  std::vector<double> shares;
  for (const Set& set : sets_) {
    if (set.from.trained == 0) continue;  // evaluated alone
    lengths.push_back(std::ssize(set.split.training));
    shares.push_back(set.from.share);
  }
  if (shares.size() < 2 || shares.front() == 0) return entries;
  std::vector<int64_t> order =
      interleave(lengths, shares, named<StoppingStrategy>(stopping_strategy(job_.data)),
                 job_.data.sampling_seed);
  return at_positions(entries, std::move(order));
}

std::vector<int64_t> TextPreparation::evaluated_entries() const {
  if (split_of_all_) return at_positions(left_by_sets(), split_of_all_->evaluation);
  std::vector<int64_t> entries;
  for (size_t i = 0; i < sets_.size(); ++i) {
    for (const int64_t entry : sets_[i].split.evaluation) {
      entries.push_back(mixture_->begin(i) + entry);
    }
  }
  return entries;
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
  std::vector<int64_t> order = training_order();
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
    EvaluationData data = evaluation_of(mixture_, evaluated_entries());
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
