#include "engine/train_steps.h"

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/nonfinite.h"
#include "engine/rank_account.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"

namespace sftbench {
namespace {

StepEvent begin_step(double pause_s) {
  StepEvent event;
  event.pause_s = pause_s;
  event.begin_s = steady_seconds();
  return event;
}

void stop_if(bool interrupted, int64_t step) {
  if (!interrupted) return;
  throw RunError(ReasonCode::kKilled, "interrupted in step " + std::to_string(step));
}

// Optimizers that update in the backward pass leave nothing to look for the cause in.
void require_finite_before_update(TrainingRun& run, const StepBatches& batches,
                                  const torch::Tensor& micro_loss, int64_t step) {
  if (!run.optimizer->updates_in_backward()) return;
  const double loss = micro_loss.item<double>();
  if (!std::isfinite(loss)) throw nonfinite_loss(run, batches, loss, loss, step);
}

// The step's loss over all ranks, of which `own` is this rank's part.
double reduced_loss(TrainingRun& run, const StepBatches& batches, const torch::Tensor& own,
                    double scale, int64_t step) {
  const torch::Tensor sum = own.clone();
  run.mesh->world().all_reduce_now(sum);
  const double loss = sum.item<double>() / scale;
  if (!std::isfinite(loss)) throw nonfinite_loss(run, batches, loss, own.item<double>(), step);
  return loss;
}

// Where this rank is in a step: for the message should ranks hang, and for the time that each phase
// takes.
class Whereabouts {
 public:
  Whereabouts(RankGroup& group, const TrainingRun& run, StepEvent& event)
      : group_(group),
        memory_watch_(run.memory_watch.get()),
        event_(event),
        of_step_(" of step " + std::to_string(event.step)),
        clock_(run.device->clock()),
        data_s_(steady_seconds() - event.begin_s) {}

  void operator()(const char* phase, double StepPhases::*seconds) {
    say(phase);
    begin(seconds);
  }

  void say(const char* phase) {
    group_.at(std::string("in the ").append(phase).append(of_step_));
    if (memory_watch_ != nullptr) memory_watch_->at(phase);
  }

  // What follows is no phase.
  void end_phase() { begin(nullptr); }

  // Once the device has done the step.
  void time_phases() {
    event_.phases = {data_s_, 0, 0, 0};
    const std::vector<double> seconds = clock_->seconds();
    for (size_t i = 0; i < seconds.size(); ++i)
      if (phases_[i] != nullptr) event_.phases.*phases_[i] += seconds[i];
  }

 private:
  void begin(double StepPhases::*phase) {
    clock_->mark();
    phases_.push_back(phase);
  }

  RankGroup& group_;
  DeviceMemoryWatch* memory_watch_;
  StepEvent& event_;
  std::string of_step_;
  std::unique_ptr<DeviceClock> clock_;
  double data_s_;
  std::vector<double StepPhases::*> phases_;  // behind each mark of the clock; null: none
};

// Of all ranks' gradients, without the scale of the loss.
double gradient_norm(TrainingRun& run, double scale) {
  const auto norm_of = [&run](const std::vector<torch::Tensor>& gradients) {
    return run.optimizer->gradient_norm(gradients);
  };
  return run.parameters->global_norm(norm_of) / scale;
}

// Clips and updates in one pass over the gradients.
void update_parameters(TrainingRun& run, const StepEvent& event, double scale) {
  if (!std::isfinite(event.grad_norm)) throw nonfinite_gradient(run, event.grad_norm, event.step);
  const double clip = clip_factor(event.grad_norm, run.max_grad_norm);
  const double begin_s = steady_seconds();
  run.optimizer->step(event.learning_rate, clip / scale);
  ++run.progress.updates;
  if (run.timeline) run.timeline->add("compute", "optimizer", begin_s, steady_seconds());
}

// Forward and backward passes, clipping and the update, kernel by kernel.
void launch_step(TrainingRun& run, const StepBatches& batches, StepEvent& event, Whereabouts& at,
                 const std::function<bool()>& interrupted) {
  // --- forward and backward: the mean over all positions of the step that bear loss
  const double scale = run.loss_scaler->scale();
  const double denominator = static_cast<double>(loss_positions(batches)) / scale;
  torch::Tensor loss = torch::zeros({}, run.device->device());
  for (size_t i = 0; i < batches.micro_batches.size(); ++i) {
    const DeviceBatch& batch = batches.micro_batches[i];
    stop_if(interrupted(), event.step);
    at("forward pass", &StepPhases::forward_s);
    run.parameters->begin_micro_batch(i == 0, i + 1 == batches.micro_batches.size());
    const torch::Tensor micro_loss =
        run.model->loss(run.batches->rows(batch), batch.labels, denominator, *run.activations);
    require_finite_before_update(run, batches, micro_loss, event.step);
    at("backward pass", &StepPhases::backward_s);
    run.optimizer->begin_backward(event.learning_rate, 1.0 / scale);
    run.activations->backward(micro_loss);
    run.optimizer->end_backward();
    loss += micro_loss.detach();
  }
  at.end_phase();

  // --- reduce the loss. The backward passes have reduced the gradients
  event.loss = reduced_loss(run, batches, loss, scale, event.step);

  // --- clip and step
  at("update", &StepPhases::update_s);
  event.grad_norm = gradient_norm(run, scale);
  event.update_skipped = !run.loss_scaler->accept(std::isfinite(event.grad_norm));
  if (!event.update_skipped) update_parameters(run, event, scale);
  run.parameters->drop_gradients();
  at.end_phase();
  run.device->synchronize();
  at.time_phases();
}

// The same as one graph. False where there is none for these batches.
bool repeat_step(TrainingRun& run, const StepBatches& batches, StepEvent& event, Whereabouts& at) {
  if (run.step_graph == nullptr) return false;
  const auto in_phase = [&at](const char* phase) { at.say(phase); };
  const auto outcome = run.step_graph->run(batches, event.learning_rate, in_phase);
  if (!outcome) return false;
  event.loss = outcome->loss;
  event.grad_norm = outcome->gradient_norm;
  if (!std::isfinite(event.loss))
    throw nonfinite_loss(run, batches, event.loss, event.loss, event.step);
  if (!std::isfinite(event.grad_norm)) throw nonfinite_gradient(run, event.grad_norm, event.step);
  ++run.progress.updates;
  return true;
}

// Collective.
TrainEnd train_end(const TrainingRun& run, const RankAccount& account, RankGroup& group) {
  TrainEnd end;
  end.steps = run.progress.steps - run.begin.resumed_step;
  end.best_step = run.progress.best.step;
  end.best_loss = run.progress.best.loss;
  end.saved = run.checkpoints->saved();
  end.unsaved = run.checkpoints->unsaved();
  end.ranks = gather_reports(account.report(run, group), group);
  end.experts = account.expert_load(run);
  if (run.memory_watch) end.memory_peak = run.memory_watch->peak();
  if (run.generation) end.generated = run.generation->texts();
  for (const RankReport& rank : end.ranks) {
    end.host_peak_rss_bytes.push_back(rank.host_peak_rss_bytes);
    if (rank.device_peak_allocated_bytes < 0) continue;
    end.device_peak_allocated_bytes.push_back(rank.device_peak_allocated_bytes);
    end.device_peak_reserved_bytes.push_back(rank.device_peak_reserved_bytes);
  }
  return end;
}

// True when an observer of any rank wants it: all ranks stop after the same step.
bool agree_to_stop(TrainingRun& run, bool stop) {
  if (run.mesh->world().world_size() == 1) return stop;
  const torch::Tensor wish = torch::full({1}, stop ? 1 : 0, torch::kInt64).to(run.device->device());
  run.mesh->world().all_reduce_now(wish, Reduction::kMax);
  return wish.item<int64_t>() != 0;
}

EvaluationEvent evaluate(TrainingRun& run, RankAccount& account, RankGroup& group,
                         const std::vector<TrainObserver*>& observers) {
  group.at("in the evaluation after step " + std::to_string(run.progress.steps));
  EvaluationEvent event;
  account.leave_out(run, [&] { event = run.evaluation->evaluate(run.progress); });
  for (TrainObserver* observer : observers) observer->on_evaluation(event);
  return event;
}

void generate(TrainingRun& run, RankAccount& account, RankGroup& group,
              std::string GeneratedText::*by_the_model) {
  if (!run.generation) return;
  group.at("writing texts after step " + std::to_string(run.progress.steps));
  account.leave_out(run, [&] { run.generation->write(by_the_model); });
}

// What is to be compared with the trained model. Trainer, too, takes none of it for the best.
// Seconds that it took.
double look_at_start(TrainingRun& run, RankAccount& account, RankGroup& group,
                     const std::vector<TrainObserver*>& observers) {
  const bool evaluates = run.evaluation && run.evaluation->on_start();
  if (!evaluates && !run.generation) return 0;
  const double begin_s = steady_seconds();
  if (evaluates) evaluate(run, account, group, observers);
  generate(run, account, group, &GeneratedText::before);
  return steady_seconds() - begin_s;
}

// Seconds that it took.
double evaluate_if_due(TrainingRun& run, RankAccount& account, bool last, RankGroup& group,
                       const std::vector<TrainObserver*>& observers) {
  if (!run.evaluation || !run.evaluation->is_due(run.progress, last)) return 0;
  const EvaluationEvent event = evaluate(run, account, group, observers);
  run.progress.last = {event.step, event.loss};
  EvaluatedLoss& best = run.progress.best;
  if (best.step < 0 || event.loss < best.loss) best = run.progress.last;
  return event.seconds;
}

}  // namespace

void train_steps(TrainingRun& run, RankGroup& group, const std::vector<TrainObserver*>& observers,
                 const std::function<bool()>& interrupted) {
  for (TrainObserver* observer : observers) observer->on_train_begin(run.begin);
  RankAccount account(run);
  TrainControl control;
  TrainingProgress& done = run.progress;
  double pause_s = look_at_start(run, account, group, observers);
  while (done.steps < run.begin.total_steps && !control.stop) {
    // --- next micro-batches
    StepEvent event = begin_step(pause_s);
    const StepBatches batches = run.batches->step(done.steps);
    event.step = ++done.steps;
    Whereabouts at(group, run, event);

    event.learning_rate = run.learning_rate * run.schedule(done.updates);
    if (!repeat_step(run, batches, event, at)) launch_step(run, batches, event, at, interrupted);

    // --- notify, evaluate and save
    account.end_step(run, batches, event);
    done.epoch = event.epoch;
    done.loss = event.loss;
    for (TrainObserver* observer : observers) observer->on_step_end(event, control);
    stop_if(interrupted(), event.step);
    control.stop = agree_to_stop(run, control.stop);
    const bool last = control.stop || done.steps == run.begin.total_steps;
    pause_s = evaluate_if_due(run, account, last, group, observers);
    pause_s += run.checkpoints->after_step(done, last);
  }
  generate(run, account, group, &GeneratedText::after);
  const TrainEnd end = train_end(run, account, group);
  for (TrainObserver* observer : observers) observer->on_train_end(end);
}

}  // namespace sftbench
