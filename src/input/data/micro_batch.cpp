#include "sftbench/data/micro_batch.h"

#include <algorithm>
#include <cstddef>

namespace sftbench {
namespace {

void fill_row(const EncodedEntry& entry, int64_t pad_id, int64_t ignored_id, int64_t* input_ids,
              int64_t* labels) {
  if (!entry.labels.empty()) {
    std::copy(entry.input_ids.begin(), entry.input_ids.end(), input_ids);
    std::copy(entry.labels.begin(), entry.labels.end(), labels);
    return;
  }
  for (size_t i = 0; i < entry.input_ids.size(); ++i) {
    const int64_t id = entry.input_ids[i];
    const bool bears_loss =
        static_cast<int64_t>(i) >= entry.loss_begin && id != pad_id && id != ignored_id;
    input_ids[i] = id;
    labels[i] = bears_loss ? id : kIgnoredLabel;
  }
}

void count_loss_tokens(MicroBatch& batch) {
  for (int64_t row = 0; row < batch.batch; ++row) {
    const int64_t* labels = batch.labels.data() + row * batch.length;
    batch.loss_tokens +=
        (batch.length - 1) - std::count(labels + 1, labels + batch.length, kIgnoredLabel);
    batch.first_loss_tokens += labels[0] == kIgnoredLabel ? 0 : 1;
  }
}

}  // namespace

BatchShape shape_of(const EncodedEntries& dataset, const std::vector<int64_t>& entries,
                    Padding padding) {
  int64_t total = 0, longest = padding == Padding::kMaxLength ? dataset.model_max_length() : 1;
  for (const int64_t index : entries) {
    total += dataset.length(index);
    longest = std::max(longest, dataset.length(index));
  }
  if (row_of(padding).one_row) return {1, std::max<int64_t>(1, total)};
  return {std::ssize(entries), longest};
}

MicroBatch make_micro_batch(const EncodedEntries& dataset, const std::vector<int64_t>& entries,
                            Padding padding, int64_t pad_id) {
  MicroBatch batch;
  static_cast<BatchShape&>(batch) = shape_of(dataset, entries, padding);
  batch.one_row = row_of(padding).one_row;
  int64_t total = 0;
  for (const int64_t index : entries) {
    const int64_t length = dataset.length(index);
    if (batch.one_row && length == 0) continue;  // a row has no place for a sequence of nothing
    batch.lengths.push_back(length);
    total += length;
  }
  batch.padded_tokens = batch.batch * batch.length;
  batch.padding_tokens = batch.padded_tokens - total;

  batch.input_ids.assign(static_cast<size_t>(batch.padded_tokens), pad_id);
  batch.labels.assign(static_cast<size_t>(batch.padded_tokens), kIgnoredLabel);
  int64_t at = 0;
  for (const int64_t index : entries) {
    const EncodedEntry entry = dataset.entry(index);
    if (!batch.one_row || !entry.input_ids.empty()) batch.dataset_tokens += entry.dataset_tokens;
    fill_row(entry, pad_id, dataset.ignored_id(), batch.input_ids.data() + at,
             batch.labels.data() + at);
    if (batch.one_row && !entry.input_ids.empty())
      batch.labels[static_cast<size_t>(at)] = kIgnoredLabel;
    at += batch.one_row ? static_cast<int64_t>(entry.input_ids.size()) : batch.length;
  }
  count_loss_tokens(batch);
  return batch;
}

}  // namespace sftbench
