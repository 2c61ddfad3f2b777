#include "engine/train.h"

#include <cmath>
#include <string>
#include <utility>

#include "engine/nonfinite.h"
#include "engine/rank_account.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

void stop_if(bool interrupted, int64_t step) {
  if (!interrupted) return;
  throw RunError(ReasonCode::kKilled, "interrupted in step " + std::to_string(step));
}

void require_loss_positions(const StepBatches& batches, int64_t step) {
  if (batches.tokens.loss_bearing > 0) return;
  throw RunError(
      ReasonCode::kData,
      "none of the " + std::to_string(batches.tokens.padded) + " positions of step " +
          std::to_string(step) +
          " bears loss: the response template does not occur in its texts, or stands behind "
          "model_max_length");
}

// Optimizers that update in the backward pass leave nothing to look for the cause in.
void require_finite_before_update(TrainingRun& run, const StepBatches& batches,
                                  const torch::Tensor& micro_loss, int64_t step) {
  if (!run.optimizer->updates_in_backward()) return;
  const double loss = micro_loss.item<double>();
  if (!std::isfinite(loss)) throw nonfinite_loss(run, batches, loss, loss, step);
}

std::vector<torch::Tensor> owned_gradients(const ParallelParameters& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const OwnedTensor& owned : parameters.owned()) {
    if (owned.tensor.grad().defined()) gradients.push_back(owned.tensor.grad());
  }
  return gradients;
}

TrainEnd train_end(int64_t steps, std::vector<SavedFolder> saved, std::vector<RankReport> ranks) {
  TrainEnd end;
  end.steps = steps;
  end.saved = std::move(saved);
  for (const RankReport& rank : ranks) {
    end.host_peak_rss_bytes.push_back(rank.host_peak_rss_bytes);
    if (rank.device_peak_allocated_bytes < 0) continue;
    end.device_peak_allocated_bytes.push_back(rank.device_peak_allocated_bytes);
    end.device_peak_reserved_bytes.push_back(rank.device_peak_reserved_bytes);
  }
  end.ranks = std::move(ranks);
  return end;
}

// True when an observer of any rank wants it: all ranks stop after the same step.
bool agree_to_stop(TrainingRun& run, bool stop) {
  if (run.mesh->world().world_size() == 1) return stop;
  const torch::Tensor wish = torch::full({1}, stop ? 1 : 0, torch::kInt64).to(run.device->device());
  run.mesh->world().all_reduce_now(wish, Reduction::kMax);
  return wish.item<int64_t>() != 0;
}

}  // namespace

void train(TrainingRun& run, RankGroup& group, const std::vector<TrainObserver*>& observers,
           const std::function<bool()>& interrupted) {
  for (TrainObserver* observer : observers) observer->on_train_begin(run.begin);
  RankAccount account(run);
  TrainControl control;
  TrainingProgress& done = run.progress;
  double saving_s = 0;
  while (done.steps < run.begin.total_steps && !control.stop) {
    StepEvent event;
    event.saving_s = saving_s;
    event.begin_s = steady_seconds();

    // --- next micro-batches
    const StepBatches batches = run.batches->step(done.steps);
    const int64_t step = ++done.steps;
    require_loss_positions(batches, step);
    const std::string of_step = " of step " + std::to_string(step);
    const auto at = [&](const char* phase) {
      group.at(std::string("in the ").append(phase).append(of_step));
    };

    // --- forward and backward: the mean over all positions of the step that bear loss
    const double scale = run.loss_scaler->scale();
    const double denominator = static_cast<double>(batches.tokens.loss_bearing) / scale;
    event.learning_rate = run.learning_rate * run.schedule(done.updates);
    torch::Tensor loss = torch::zeros({}, run.device->device());
    for (size_t i = 0; i < batches.micro_batches.size(); ++i) {
      const DeviceBatch& batch = batches.micro_batches[i];
      stop_if(interrupted(), step);
      at("forward pass");
      run.parameters->begin_micro_batch(i == 0, i + 1 == batches.micro_batches.size());
      const torch::Tensor micro_loss = run.model->loss({batch.input_ids, batch.packed, batch.mask},
                                                       batch.labels, denominator, *run.activations);
      require_finite_before_update(run, batches, micro_loss, step);
      at("backward pass");
      run.optimizer->begin_backward(event.learning_rate, 1.0 / scale);
      run.activations->backward(micro_loss);
      run.optimizer->end_backward();
      loss += micro_loss.detach();
    }

    // --- reduce: gradients were, during the backward passes
    const std::vector<torch::Tensor> gradients = owned_gradients(*run.parameters);
    const torch::Tensor own_loss = loss.clone();
    run.mesh->world().all_reduce_now(loss);
    event.loss = loss.item<double>() / scale;
    if (!std::isfinite(event.loss)) {
      throw nonfinite_loss(run, batches, event.loss, own_loss.item<double>(), step);
    }

    // --- clip and step, both in one pass over the gradients
    at("update");
    event.grad_norm = run.parameters->global_norm(run.optimizer->gradient_norm(gradients)) / scale;
    const bool gradients_finite = std::isfinite(event.grad_norm);
    event.update_skipped = !run.loss_scaler->accept(gradients_finite);
    if (!event.update_skipped) {
      if (!gradients_finite) throw nonfinite_gradient(run, event.grad_norm, step);
      const double clip = clip_factor(event.grad_norm, run.max_grad_norm);
      const double update_s = steady_seconds();
      run.optimizer->step(event.learning_rate, clip / scale);
      if (run.timeline) run.timeline->add("compute", "optimizer", update_s, steady_seconds());
      ++done.updates;
    }
    run.parameters->drop_gradients();
    run.device->synchronize();

    // --- notify
    event.end_s = steady_seconds();
    event.step = step;
    event.epoch = done.epoch = batches.epoch;
    event.samples = batches.samples;
    event.micro_batches = static_cast<int64_t>(batches.micro_batches.size());
    event.tokens = batches.tokens;
    event.attention_flops = batches.attention_flops;
    event.device_allocated_bytes = run.device->allocated_bytes();
    account.add_step(run, event, batches);
    for (TrainObserver* observer : observers) observer->on_step_end(event, control);
    stop_if(interrupted(), step);
    control.stop = agree_to_stop(run, control.stop);
    saving_s = run.checkpoints->after_step(
        done, /*last=*/control.stop || done.steps == run.begin.total_steps);
  }
  const TrainEnd end = train_end(done.steps - run.begin.resumed_step, run.checkpoints->saved(),
                                 gather_reports(account.report(run, group), group));
  for (TrainObserver* observer : observers) observer->on_train_end(end);
}

}  // namespace sftbench
