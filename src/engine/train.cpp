#include "engine/train.h"

#include <torch/torch.h>

#include <cmath>
#include <string>

#include "engine/nonfinite.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/measure/proc.h"

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

// Optimisers that update in the backward pass leave nothing to look for the cause in.
void require_finite_before_update(TrainingRun& run, const StepBatches& batches,
                                  const torch::Tensor& micro_loss, int64_t step) {
  if (!run.optimizer->updates_in_backward()) return;
  const double loss = micro_loss.item<double>();
  if (!std::isfinite(loss)) throw nonfinite_loss(run, batches, loss, step);
}

std::vector<torch::Tensor> gradients_of(const std::vector<torch::Tensor>& parameters) {
  std::vector<torch::Tensor> gradients;
  for (const torch::Tensor& parameter : parameters) {
    if (parameter.grad().defined()) gradients.push_back(parameter.grad());
  }
  return gradients;
}

// The memory is free for the next forward pass, and its first backward writes instead of adding.
void drop_gradients(const std::vector<torch::Tensor>& parameters) {
  for (const torch::Tensor& parameter : parameters) parameter.mutable_grad().reset();
}

TrainEnd train_end(const TrainingRun& run, int64_t steps) {
  return {.steps = steps,
          .device_peak_allocated_bytes = run.device->peak_allocated_bytes(),
          .device_peak_reserved_bytes = run.device->peak_reserved_bytes(),
          .host_peak_rss_bytes = {peak_rss_bytes()}};
}

}  // namespace

void train(TrainingRun& run, const std::vector<TrainObserver*>& observers,
           const std::function<bool()>& interrupted) {
  for (TrainObserver* observer : observers) observer->on_train_begin(run.begin);
  TrainControl control;
  int64_t step = 0, updates = 0;  // they differ when loss scaling skips an update
  while (step < run.begin.total_steps && !control.stop) {
    StepEvent event;
    event.begin_s = steady_seconds();

    // --- next micro-batches
    const StepBatches batches = run.batches->step(step++);
    require_loss_positions(batches, step);

    // --- forward and backward: the mean over all positions of the step that bear loss
    const double scale = run.loss_scaler->scale();
    const double denominator = static_cast<double>(batches.tokens.loss_bearing) / scale;
    event.learning_rate = run.learning_rate * run.schedule(updates);
    torch::Tensor loss = torch::zeros({}, run.device->device());
    for (const DeviceBatch& batch : batches.micro_batches) {
      stop_if(interrupted(), step);
      const torch::Tensor micro_loss = run.model->loss({batch.input_ids, batch.packed},
                                                       batch.labels, denominator, *run.activations);
      require_finite_before_update(run, batches, micro_loss, step);
      run.optimizer->begin_backward(event.learning_rate, 1.0 / scale);
      run.activations->backward(micro_loss);
      run.optimizer->end_backward();
      loss += micro_loss.detach();
    }

    // --- reduce
    std::vector<torch::Tensor> gradients = gradients_of(run.trained);
    for (torch::Tensor& gradient : gradients) run.communicator->all_reduce_now(gradient);
    run.communicator->all_reduce_now(loss);
    event.loss = loss.item<double>() / scale;
    if (!std::isfinite(event.loss)) throw nonfinite_loss(run, batches, event.loss, step);

    // --- clip and step, both in one pass over the gradients
    event.grad_norm = run.optimizer->gradient_norm(gradients) / scale;
    const bool gradients_finite = std::isfinite(event.grad_norm);
    event.update_skipped = !run.loss_scaler->accept(gradients_finite);
    if (!event.update_skipped) {
      if (!gradients_finite) throw nonfinite_gradient(run, event.grad_norm, step);
      const double clip = clip_factor(event.grad_norm, run.max_grad_norm);
      run.optimizer->step(event.learning_rate, clip / scale);
      ++updates;
    }
    drop_gradients(run.trained);
    run.device->synchronize();

    // --- notify
    event.end_s = steady_seconds();
    event.step = step;
    event.epoch = batches.epoch;
    event.samples = batches.samples;
    event.micro_batches = static_cast<int64_t>(batches.micro_batches.size());
    event.tokens = batches.tokens;
    event.attention_flops = batches.attention_flops;
    event.device_allocated_bytes = run.device->allocated_bytes();
    for (TrainObserver* observer : observers) observer->on_step_end(event, control);
    stop_if(interrupted(), step);
  }
  for (TrainObserver* observer : observers) observer->on_train_end(train_end(run, step));
}

}  // namespace sftbench
