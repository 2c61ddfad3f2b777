// Entries as one rectangular batch: right-padded ids and labels, and what there is to count in it.
#pragma once

#include <cstdint>
#include <vector>

#include "sftbench/data/text_dataset.h"
#include "sftbench/variants/padding.h"

namespace sftbench {

struct BatchShape {
  int64_t batch = 0;   // rows; 1 without padding: all entries in one
  int64_t length = 0;  // columns
};

inline bool operator==(const BatchShape& a, const BatchShape& b) {
  return a.batch == b.batch && a.length == b.length;
}

struct MicroBatch : BatchShape {
  std::vector<int64_t> input_ids;  // [batch, length], row by row
  std::vector<int64_t> labels;     // [batch, length]; -100 bears no loss
  std::vector<int64_t> lengths;    // tokens of each entry, in the order in which they stand
  bool one_row = false;            // without padding: a row's sequences have these lengths

  int64_t padded_tokens = 0;   // batch * length
  int64_t padding_tokens = 0;  // those of them that are no entry's
  int64_t dataset_tokens = 0;  // as EncodedEntry counts them
  // Labels that are not -100 from the second column on: position i predicts label i + 1. Trainer
  // sums it over the micro-batches (and ranks) of a step as num_items_in_batch, the divisor of the
  // loss.
  int64_t loss_tokens = 0;
  // Labels of the first column: behind virtual tokens they are predicted, too, though Trainer does
  // not divide by them.
  int64_t first_loss_tokens = 0;
};

// Of the micro-batch that these entries make. REQUIRES: the entries are encoded.
BatchShape shape_of(const EncodedEntries& dataset, const std::vector<int64_t>& entries,
                    Padding padding);

// Labels that an entry brings along stand as they are. Others are -100 wherever the id is `pad_id`,
// padding or not, as Hugging Face's collator makes them, on placeholders of images as
// fms-hf-tuning's does, and on the first token of an entry that stands behind another: nothing
// predicts it.
// REQUIRES: the entries are encoded.
MicroBatch make_micro_batch(const EncodedEntries& dataset, const std::vector<int64_t>& entries,
                            Padding padding, int64_t pad_id);

}  // namespace sftbench
