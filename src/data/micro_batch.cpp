#include "sftbench/data/micro_batch.h"

#include <algorithm>
#include <cstddef>

namespace sftbench {
namespace {

void fill_row(const EncodedEntry& entry, int64_t pad_id, int64_t* input_ids, int64_t* labels) {
  for (size_t i = 0; i < entry.input_ids.size(); ++i) {
    const int64_t id = entry.input_ids[i];
    const bool bears_loss = static_cast<int64_t>(i) >= entry.loss_begin && id != pad_id;
    input_ids[i] = id;
    labels[i] = bears_loss ? id : kIgnoredLabel;
  }
}

}  // namespace

MicroBatch make_micro_batch(const TextDataset& dataset, const std::vector<int64_t>& entries,
                            Padding padding, int64_t pad_id) {
  MicroBatch batch;
  batch.batch = static_cast<int64_t>(entries.size());
  batch.length = padding == Padding::kMaxLength ? dataset.options().model_max_length : 1;
  for (const int64_t index : entries) {
    const EncodedEntry& entry = dataset.entry(index);
    const auto length = static_cast<int64_t>(entry.input_ids.size());
    batch.length = std::max(batch.length, length);
    batch.lengths.push_back(length);
    batch.dataset_tokens += entry.dataset_tokens;
  }
  batch.padded_tokens = batch.batch * batch.length;

  batch.input_ids.assign(static_cast<size_t>(batch.padded_tokens), pad_id);
  batch.labels.assign(static_cast<size_t>(batch.padded_tokens), kIgnoredLabel);
  int64_t* ids_row = batch.input_ids.data();
  int64_t* labels_row = batch.labels.data();
  for (const int64_t index : entries) {
    fill_row(dataset.entry(index), pad_id, ids_row, labels_row);
    batch.loss_tokens +=
        (batch.length - 1) - std::count(labels_row + 1, labels_row + batch.length, kIgnoredLabel);
    ids_row += batch.length;
    labels_row += batch.length;
  }
  return batch;
}

}  // namespace sftbench
