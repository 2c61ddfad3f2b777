#include "engine/evaluation.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/interval.h"
#include "engine/step_batches.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/torch.h"
#include "sftbench/data/micro_batch.h"

namespace sftbench {
namespace {

// Over the micro-batches of a rank, then over all ranks.
struct Sums {
  double entries = 0;
  double weighted_entries = 0;  // those of micro-batches that bear loss
  double loss = 0;              // a micro-batch's mean for each of its entries
  double token_loss = 0;
  double tokens = 0;
};

Sums sum_over_ranks(const Sums& own, Communicator& world, torch::Device device) {
  torch::Tensor values =
      torch::tensor({own.entries, own.weighted_entries, own.loss, own.token_loss, own.tokens},
                    torch::kFloat64)
          .to(device);
  world.all_reduce_now(values);
  values = values.cpu();
  const double* sum = values.data_ptr<double>();
  return {sum[0], sum[1], sum[2], sum[3], sum[4]};
}

}  // namespace

std::vector<EvaluationData::Batch> evaluation_batches(const std::vector<int64_t>& entries,
                                                      int64_t batch_size, int64_t ranks,
                                                      int64_t rank) {
  const auto count = static_cast<int64_t>(entries.size());
  const auto batch = [&](int64_t begin) {
    const auto first = entries.begin() + begin;
    return std::vector<int64_t>(first, entries.begin() + std::min(begin + batch_size, count));
  };
  std::vector<EvaluationData::Batch> batches;
  for (int64_t round = 0; round * ranks * batch_size < count; ++round) {
    const int64_t begin = (round * ranks + rank) * batch_size;
    const bool counts = begin < count;
    batches.push_back({batch(counts ? begin : 0), counts});
  }
  return batches;
}

Evaluation::Evaluation(const EvaluationPlan& plan, EvaluationData data, CausalLm& model,
                       ParallelParameters& parameters, Communicator& world,
                       std::unique_ptr<LayerRunner> runner, BatchReader reader)
    : plan_(plan),
      data_(std::move(data)),
      model_(model),
      parameters_(parameters),
      world_(world),
      runner_(std::move(runner)),
      reader_(std::move(reader)) {}

bool Evaluation::is_due(const TrainingProgress& progress, bool last) const {
  return last || ends_interval(plan_.strategy, plan_.steps, progress);
}

EvaluationEvent Evaluation::evaluate(const TrainingProgress& progress) {
  const double begin_s = steady_seconds();
  Sums own;
  for (const EvaluationData::Batch& batch : data_.batches) {
    const MicroBatch rows =
        make_micro_batch(*data_.dataset, batch.entries, data_.padding, data_.pad_id);
    const ReadBatch read = read_batch(rows, reader_);
    const DeviceBatch& on_device = read.on_device;
    parameters_.begin_evaluation();
    TokenRows of_model(on_device.input_ids, on_device.packed, on_device.mask);
    of_model.part = on_device.part;
    of_model.silent = on_device.silent;
    const LossParts parts = model_.evaluate(of_model, on_device.labels, *runner_);
    if (!batch.counts) continue;
    // Ranks that divide rows have a share each of a batch's loss: they count its entries once.
    const double share =
        reader_.context == nullptr ? 1 : 1.0 / static_cast<double>(reader_.context->size());
    const auto entries = static_cast<double>(batch.entries.size());
    // Behind virtual tokens the first token of a row is predicted, too, which Trainer's mean is not
    // divided by.
    const auto tokens = static_cast<double>(rows.loss_tokens + read.undivided);
    own.entries += entries * share;
    if (tokens == 0) continue;
    const double sum = parts.cross_entropy.item<double>();
    const double auxiliary = parts.auxiliary.defined() ? parts.auxiliary.item<double>() : 0;
    own.weighted_entries += entries * share;
    const auto divisor = static_cast<double>(std::max<int64_t>(1, rows.loss_tokens));
    own.loss += entries * (sum / divisor + auxiliary);
    own.token_loss += sum;
    own.tokens += tokens * share;
  }
  parameters_.end_evaluation();
  const Sums all = sum_over_ranks(own, world_, reader_.device);
  if (all.tokens == 0) {
    throw RunError(ReasonCode::kData, "none of the " +
                                          counted(std::llround(all.entries), "entry", "entries") +
                                          " of the evaluation has a position that bears "
                                          "loss within model_max_length");
  }
  if (!std::isfinite(all.loss + all.token_loss)) {
    throw RunError(ReasonCode::kInternal, "the loss of the evaluation after step " +
                                              std::to_string(progress.steps) + " is not finite");
  }
  return {.step = progress.steps,
          .epoch = progress.epoch,
          .loss = all.loss / all.weighted_entries,
          .token_loss = all.token_loss / all.tokens,
          .entries = std::llround(all.entries),
          .tokens = std::llround(all.tokens),
          .seconds = steady_seconds() - begin_s};
}

}  // namespace sftbench
