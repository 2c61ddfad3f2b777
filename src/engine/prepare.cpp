#include <future>
#include <map>
#include <utility>

#include "engine/prepare_data.h"
#include "engine/prepare_parallel.h"
#include "engine/prepare_precision.h"
#include "engine/resume.h"
#include "engine/schedule_of.h"
#include "engine/training_run.h"
#include "engine/unit_runner.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/plain.h"
#include "sftbench/tuning/tuning.h"

namespace sftbench {
namespace {

ops::KernelChoice choose_kernels(const KernelPlan& plan) {
  ops::KernelChoice kernels;
  if (!plan.flash_attention) kernels.causal_attention = ops::plain::causal_attention;
  if (!plan.fused_loss) kernels.linear_cross_entropy = ops::plain::linear_cross_entropy;
  if (!plan.fused_rms_norm) kernels.rms_norm = ops::plain::rms_norm;
  if (!plan.fused_rope) kernels.apply_rope = ops::plain::apply_rope;
  return kernels;
}

std::unique_ptr<ActivationPolicy> choose_activations(const ActivationPlan& plan, int64_t layers) {
  if (!plan.gradient_checkpointing) return keep_activations();
  return plan.use_reentrant ? checkpoint_reentrant(layers) : checkpoint_segments(layers);
}

// Virtual tokens start from the embeddings of a text or, with no ids, at random.
std::vector<int32_t> initial_prompt(const PromptPlan& plan, const Tokenizer& tokenizer) {
  if (plan.init == "RANDOM") return {};
  if (plan.init != "TEXT") throw unsupported_choice("prompt.init", plan.init, {"RANDOM", "TEXT"});
  std::vector<int32_t> ids = tokenizer.encode(plan.init_text);
  if (!ids.empty()) return ids;
  throw RunError(ReasonCode::kUnsupported,
                 "prompt.init_text has no tokens; give a text, or \"init\": \"RANDOM\"");
}

// Virtual tokens stand in front of rows; of a row of several entries only the first would see them.
void require_prompt_per_row(const std::string& padding) {
  if (padding == "longest" || padding == "max_length") return;
  throw RunError(ReasonCode::kUnsupported,
                 "prompt tuning with padding " + padding +
                     ": its virtual tokens stand in front of each row, so a row has to be one "
                     "entry; longest or max_length works");
}

std::unique_ptr<Tuning> choose_tuning(const TrainingJob& job, const Tokenizer& tokenizer) {
  TuningOptions options;
  options.seed = job.seed;
  options.lora = {job.lora.rank, job.lora.alpha, job.lora.dropout, job.lora.target_modules};
  options.prompt.virtual_tokens = job.prompt.virtual_tokens;
  if (job.tuning == "pt") {
    require_prompt_per_row(job.data.padding);
    options.prompt.initial_ids = initial_prompt(job.prompt, tokenizer);
  }
  return make_tuning(job.tuning, options);
}

// Weights that are quantized have a way of their own to be trained, and no other weights have it.
void require_weights_fit(const TrainingJob& job) {
  const bool quantised = parse_model_config(job.model.hf_config).gptq.has_value();
  if (quantised == (job.tuning == "gptq-lora")) return;
  const std::string model = "the weights of " + job.model.name;
  throw RunError(ReasonCode::kUnsupported,
                 quantised ? model + " are quantised (GPTQ), and tuning " + job.tuning +
                                 " trains weights that are not; gptq-lora works"
                           : model +
                                 " are not quantised: config.json has no quantization_config; "
                                 "tuning lora works");
}

AttentionShape attention_shape(const ModelConfig& config, int64_t virtual_tokens) {
  std::map<int64_t, int64_t> width_of_window;
  for (const LayerShape& layer : shape_of(config).layers)
    width_of_window[layer.window] += layer.query_width;
  AttentionShape shape;
  shape.virtual_tokens = virtual_tokens;
  for (const auto& [window, width] : width_of_window) shape.layers.push_back({window, width});
  return shape;
}

int64_t count_elements(const std::vector<NamedParameter>& parameters) {
  int64_t elements = 0;
  for (const NamedParameter& parameter : parameters) elements += parameter.weight_count();
  return elements;
}

// Rows that are looked up and multiplied with nothing; a tied embedding is multiplied as output
// projection.
int64_t count_lookup_elements(CausalLm& model) {
  return model.config().tie_word_embeddings ? 0 : model.embedding().numel();
}

std::vector<TrainableTensor> trainable(const ParallelParameters& parameters) {
  std::vector<TrainableTensor> tensors;
  for (const OwnedTensor& owned : parameters.owned()) {
    tensors.push_back({owned.name, owned.tensor});
  }
  return tensors;
}

void choose_optimizer(TrainingRun& run, const OptimizerPlan& plan, bool distributed) {
  run.optimizer =
      make_optimizer(plan.name, group_by_decay(trainable(*run.parameters), plan.weight_decay),
                     {.betas = plan.betas, .epsilon = plan.epsilon});
  run.schedule = schedule_of(plan, run.begin.total_steps);
  run.learning_rate = plan.learning_rate;
  run.max_grad_norm = plan.max_grad_norm;
  if (run.optimizer->updates_in_backward() && distributed) {
    throw RunError(ReasonCode::kUnsupported,
                   "optimizer '" + plan.name +
                       "' updates in the backward, before gradients of several ranks are summed; "
                       "one rank (without --distribute-one-rank) works, or an optimizer that "
                       "updates after it, as adamw_torch");
  }
  if (run.optimizer->updates_in_backward() && run.loss_scaler->scale() != 1.0) {
    throw RunError(ReasonCode::kUnsupported,
                   "optimizer '" + plan.name +
                       "' updates in the backward, before loss scaling knows whether a gradient "
                       "overflowed; autocast bf16 or no works");
  }
}

std::vector<std::string> notes_on(const Optimizer& optimizer, const OptimizerPlan& plan) {
  std::vector<std::string> notes;
  if (std::string note = optimizer_note(plan.name); !note.empty()) notes.push_back(std::move(note));
  if (optimizer.updates_in_backward() && plan.max_grad_norm > 0) {
    notes.push_back("optim " + plan.name +
                    " updates each parameter as soon as its gradient is there: gradients are not "
                    "clipped, and grad_norm is that of all micro-batches of a step");
  }
  return notes;
}

std::vector<std::string> warnings_about(const BatchSource& batches) {
  std::vector<std::string> warnings;
  if (const int64_t entries = batches.entries_without_response(); entries > 0) {
    warnings.push_back(
        std::to_string(entries) +
        " entries lack the response template within model_max_length and bear no loss");
  }
  return warnings;
}

void watch_communication(TrainingRun& run) {
  run.timeline = std::make_unique<Timeline>();
  run.mesh->on_end(
      [timeline = run.timeline.get()](const std::string& group, const CollectiveSpan& span) {
        timeline->add("communication " + group,
                      to_string(span.collective) + " " + std::to_string(span.bytes) + " bytes",
                      span.begin_s, span.end_s);
      });
}

void resume_run(TrainingRun& run, const TrainingJob& job, TrainedState& state) {
  Resumed resumed = resume(job, run.begin.total_steps, state);
  run.progress = resumed.progress;
  run.begin.resumed_from = job.save.resume_from;
  run.begin.resumed_step = resumed.progress.steps;
  for (std::string& note : resumed.notes) run.begin.warnings.push_back(std::move(note));
}

struct TimedData {
  TrainingData data;
  double seconds;
};

}  // namespace

TrainingRun prepare_run(const TrainingJob& job, RankGroup& group, LoadWatch& watch) {
  if (job.device.ranks != group.world_size()) {
    throw RunError(
        ReasonCode::kUnsupported,
        "the job is for " + std::to_string(job.device.ranks) + " ranks, and this is " +
            (group.world_size() == 1 ? "one process alone"
                                     : "a group of " + std::to_string(group.world_size())));
  }
  TrainingRun run;
  watch.phase(group.world_size() > 1 ? "meeting the other ranks" : "making the device ready");
  run.device = make_training_device(job.device, group.place());
  const torch::Device device = run.device->device();
  run.mesh = is_distributed(job)
                 ? make_process_mesh(mesh_kind(job.parallel.strategy), group, device)
                 : make_local_mesh();
  if (!job.trace_path.empty()) watch_communication(run);
  require_precision(job.precision, device);
  require_weights_fit(job);

  // Text is tokenized while weights load: neither needs the other.
  watch.phase("reading the tokenizer");
  const Tokenizer tokenizer = prepare_tokenizer(job.model);
  watch.phase("loading");
  const std::unique_ptr<Tuning> tuning = choose_tuning(job, tokenizer);
  std::future<TimedData> tokenised = std::async(std::launch::async, [&] {
    const double begin_s = steady_seconds();
    TrainingData data =
        prepare_data(job, tokenizer, at::get_num_threads(), group.rank(), watch.entries());
    return TimedData{std::move(data), steady_seconds() - begin_s};
  });
  const double begin_s = steady_seconds();
  PlacedModel placed = place_model(job, choose_kernels(job.kernels), tokenizer.vocabulary_size(),
                                   *tuning, device, *run.mesh, watch.weights());
  watch.weights().done = watch.weights().total.load();  // norms and the padding of shards, too
  run.model = std::move(placed.model);
  run.model->seed_dropout(job.seed);
  run.parameters = std::move(placed.parameters);
  run.begin.compute_dtype = apply_precision(*run.model, job.precision, device);
  run.begin.weights_seconds = steady_seconds() - begin_s;
  TimedData timed = tokenised.get();

  run.begin.tokenize_seconds = timed.seconds;
  run.begin.tokenizer = tokenizer_origin(job.model);
  run.begin.total_steps = timed.data.plan.total_steps();
  run.begin.padding = job.data.padding;

  run.begin.parameters_total = count_elements(run.model->parameters());
  run.begin.parameters_trainable = count_elements(placed.trained);
  run.begin.parameters_embedding = count_lookup_elements(*run.model);

  run.batches = std::make_unique<BatchSource>(
      std::move(timed.data), attention_shape(run.model->config(), tuning->virtual_tokens()),
      run.model->needs_mask(), device, run.mesh->world());
  run.activations = choose_activations(job.activations, run.model->layer_count());
  if (is_distributed(job) || run.timeline) {
    run.activations = run_units(std::move(run.activations), job.activations.gradient_checkpointing,
                                *run.parameters, run.timeline.get());
  }
  run.loss_scaler = choose_loss_scaler(job.precision, run.parameters->owned());
  choose_optimizer(run, job.optimizer, is_distributed(job));
  run.begin.ranks = group.world_size();
  run.begin.warnings = warnings_about(*run.batches);
  for (std::string& note : notes_on(*run.optimizer, job.optimizer)) {
    run.begin.warnings.push_back(std::move(note));
  }
  if (is_distributed(job)) {
    for (std::string& note : notes_on_ranks(job)) run.begin.warnings.push_back(std::move(note));
  }
  TrainedState state{*run.model, *run.parameters, *run.optimizer,       *run.loss_scaler,
                     *run.mesh,  group,           tuning->peft_config()};
  if (!job.save.resume_from.empty()) {
    watch.phase("reading the checkpoint");
    resume_run(run, job, state);
  }
  run.checkpoints = make_checkpoints(job, run.begin.total_steps, state);
  for (std::string& note : notes_on_saving(job, state)) {
    run.begin.warnings.push_back(std::move(note));
  }
  return run;
}

}  // namespace sftbench
