#include "simulate/cost_model.h"

#include <algorithm>

#include "sftbench/base/error.h"
#include "sftbench/catalog/shipped_gpus.h"
#include "sftbench/plan/job_steps.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/predict/cost_model.h"
#include "sftbench/predict/machine_catalog.h"

namespace sftbench {
namespace {

constexpr int64_t kPromptTokens = 24;      // that bear no loss
constexpr double kUsableShare = 0.985;     // of a GPU's memory, as `predict` counts it
constexpr double kProcessBytes = 1 << 30;  // what a process holds besides the model

int64_t trained_parameters(const TrainingJob& job, const KnownModel& model, int64_t total) {
  if (row_of(job.tuning).trains_weights) return total;
  // Two factors of rank r for two square projections of each layer.
  const int64_t rank = std::max<int64_t>(1, job.inputs.value("r", int64_t{4}));
  return std::min(total, 4 * rank * model.config.hidden_size * model.config.num_hidden_layers);
}

TrainBegin begin_of(const TrainingJob& job, const KnownModel& model) {
  TrainBegin begin;
  begin.total_steps = steps_by_id(job);
  begin.parameters_total = model.shape.parameters();
  begin.parameters_trainable = trained_parameters(job, model, begin.parameters_total);
  begin.parameters_embedding = model.shape.lookup_parameters;
  begin.compute_dtype = product_dtype_name(job.precision.torch_dtype, job.precision.autocast);
  begin.padding = name_of(job.data.padding);
  begin.tokenizer = "none: simulated";
  begin.ranks = static_cast<int>(job.device.ranks);
  begin.warnings = {"simulated: nothing was trained, no figure of this result was measured"};
  return begin;
}

void add_tokens(const TrainingJob& job, JobCost& cost) {
  const int64_t length = kept_tokens_by_id(job);
  const int64_t padded =
      job.data.padding == Padding::kMaxLength ? job.data.model_max_length : length;
  cost.samples = job.batches.per_device_batch_size * data_ranks(job) *
                 job.batches.gradient_accumulation_steps * entries_per_row_by_id(job);
  cost.tokens = {.padded = cost.samples * padded,
                 .dataset = cost.samples * length,
                 .loss_bearing = cost.samples * std::max<int64_t>(1, length - kPromptTokens),
                 .padding = cost.samples * (padded - length)};
}

void add_flops(const TrainingJob& job, const KnownModel& model, JobCost& cost) {
  const auto positions = static_cast<double>(cost.tokens.padded);
  const double length = positions / static_cast<double>(cost.samples);
  const double multiplied =
      static_cast<double>(cost.begin.parameters_total - cost.begin.parameters_embedding);
  const double trained = std::min(multiplied, static_cast<double>(cost.begin.parameters_trainable));
  cost.attention_flops =
      2 * positions * length *
      static_cast<double>(model.config.hidden_size * model.config.num_hidden_layers);
  const double forward = 2 * multiplied * positions + cost.attention_flops;
  double flops = 2 * forward + cost.attention_flops + 2 * trained * positions;
  if (job.activations.gradient_checkpointing) flops += forward;
  cost.flops_per_device = flops / static_cast<double>(job.device.ranks);
}

void add_memory(const TrainingJob& job, const KnownModel& model, JobCost& cost) {
  const auto element_bytes = static_cast<double>(row_of(job.precision.torch_dtype).bytes);
  const auto ranks = static_cast<double>(job.device.ranks);
  const double state = (static_cast<double>(cost.begin.parameters_total) +
                        3 * static_cast<double>(cost.begin.parameters_trainable)) *
                       element_bytes / ranks;
  const double micro_batch_positions =
      static_cast<double>(cost.tokens.padded) /
      (ranks * static_cast<double>(job.batches.gradient_accumulation_steps));
  const auto hidden = static_cast<double>(model.config.hidden_size);
  const auto layers = static_cast<double>(model.config.num_hidden_layers);
  // 17 values per position, layer and hidden unit; one where the layer is recomputed.
  const double kept = job.activations.gradient_checkpointing ? layers + 17 : 17 * layers;
  const double activations = micro_batch_positions * hidden * kept * element_bytes;
  const double logits = micro_batch_positions * static_cast<double>(model.config.vocab_size) * 4;
  cost.device_bytes = state + activations + logits;
  cost.host_bytes = ranks * (kProcessBytes + (job.device.kind == "cuda" ? 0 : cost.device_bytes));
}

// On GPUs that `predict` knows, time and memory are what it predicts for rows of this length.
void add_prediction(const TrainingJob& job, JobCost& cost) {
  if (job.device.kind != "cuda") return;
  TrainingJob as_long = job;
  as_long.data.model_max_length = cost.tokens.padded / cost.samples;
  try {
    MachineModel machine = machine_of(
        job.device.gpu_model, product_dtype_name(job.precision.torch_dtype, job.precision.autocast),
        shipped_gpus(), MachineCatalog::shipped());
    machine.stack = StackModel::named("sftbench");
    const StepCost predicted = predict_step(as_long, machine);
    cost.step_s = predicted.step_s;
    cost.device_bytes = predicted.memory.total();
    const double others = job.device.ranks > 1 ? machine.stack.communicator_bytes : 0;
    cost.device_limit_bytes =
        kUsableShare * machine.memory_bytes - machine.stack.context_bytes - others;
  } catch (const RunError&) {  // what the cost model does not know is counted by the rules above
  } catch (const InputError&) {
  }
}

}  // namespace

JobCost cost_of(const TrainingJob& job) {
  const KnownModel& model = known_model(job.model);
  JobCost cost;
  cost.begin = begin_of(job, model);
  cost.vocabulary = model.config.vocab_size;
  add_tokens(job, cost);
  add_flops(job, model, cost);
  add_memory(job, model, cost);
  add_prediction(job, cost);
  return cost;
}

}  // namespace sftbench
