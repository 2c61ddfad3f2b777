#include <algorithm>
#include <future>
#include <map>
#include <set>
#include <utility>

#include "engine/choose_tuning.h"
#include "engine/encode_entries.h"
#include "engine/host_memory.h"
#include "engine/prepare_data.h"
#include "engine/prepare_parallel.h"
#include "engine/prepare_precision.h"
#include "engine/resume.h"
#include "engine/saved_files.h"
#include "engine/schedule_of.h"
#include "engine/training_run.h"
#include "engine/unit_runner.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/torch.h"
#include "sftbench/ops/plain.h"
#include "sftbench/optim/offloaded.h"
#include "sftbench/plan/base_precision.h"
#include "sftbench/predict/cost_model.h"
#include "sftbench/tuning/tuning.h"

namespace sftbench {
namespace {

ops::KernelChoice choose_kernels(const KernelPlan& plan) {
  ops::KernelChoice kernels;
  if (!plan.flash_attention) kernels.causal_attention = ops::plain::causal_attention;
  if (!plan.fused_loss) kernels.linear_cross_entropy = ops::plain::linear_cross_entropy;
  if (!plan.fused_rms_norm) {
    kernels.rms_norm = ops::plain::rms_norm;
    kernels.add_rms_norm = ops::plain::add_rms_norm;
    kernels.gated_rms_norm = ops::plain::gated_rms_norm;
  }
  if (!plan.fused_rope) kernels.apply_rope = ops::plain::apply_rope;
  return kernels;
}

std::unique_ptr<ActivationPolicy> choose_activations(const ActivationPlan& plan, int64_t layers,
                                                     torch::Device device) {
  if (!plan.gradient_checkpointing) return keep_activations();
  // Both variants have the same gradients.
  if (plan.offload && offloads_from(device)) {
    return checkpoint_on_host(layers, device);
  }
  return plan.use_reentrant ? checkpoint_reentrant(layers) : checkpoint_segments(layers);
}

// What rows that several ranks divide cannot be.
void require_rows_divide(const TrainingJob& job) {
  const auto refuse = [&](const std::string& what, const std::string& works) {
    throw RunError(ReasonCode::kUnsupported, "context_parallel " +
                                                 std::to_string(job.parallel.context_ranks) + ": " +
                                                 what + "; " + works);
  };
  const int64_t among = job.parallel.context_ranks;
  if (among == 1) return;
  if (job.device.ranks % among != 0) {
    refuse(counted(job.device.ranks, "rank") + " cannot be divided evenly into groups of " +
               std::to_string(among),
           "context_parallel 1 works");
  }
  if (job.tuning == TuningMethod::kPrompt)
    refuse("virtual tokens stand in front of whole rows", "tuning full and lora divide rows");
  if (!job.data.image_field.empty())
    refuse("rows with images stay whole", "context_parallel 1 works");
}

void require_weights_fit(const TrainingJob& job) {
  const std::string refusal = weights_refusal(job.model, job.tuning);
  if (!refusal.empty()) throw RunError(ReasonCode::kUnsupported, refusal);
}

AttentionShape attention_shape(const ModelConfig& config, int64_t virtual_tokens, bool full) {
  std::map<int64_t, int64_t> width_of_window;
  AttentionShape shape;
  for (const LayerShape& layer : shape_of(config).layers) {
    width_of_window[layer.window] += layer.query_width;
    shape.scanned_values += layer.scanned_values;
  }
  shape.virtual_tokens = virtual_tokens;
  // Attention counts three times. Of a frozen tower the gradient of the weights is left out.
  shape.tile_flops = tile_flops(config) * (full ? 1.0 : 2.0 / 3.0);
  for (const auto& [window, width] : width_of_window) shape.layers.push_back({window, width});
  return shape;
}

int64_t count_elements(const std::vector<NamedParameter>& parameters) {
  int64_t elements = 0;
  for (const NamedParameter& parameter : parameters) elements += parameter.weight_count();
  return elements;
}

// Rows that are looked up and multiplied with nothing. The vocabulary may have grown.
int64_t count_lookup_elements(CausalLm& model) {
  const ModelConfig& config = model.config();
  const int64_t counted = config.tie_word_embeddings ? 0 : config.vocab_size * config.hidden_size;
  return shape_of(config).lookup_parameters +
         (model.is_tied() ? 0 : model.embedding().numel() - counted);
}

// Whether an adapter has rows of its own for tokens that the base lacks.
bool trains_new_rows(const ParallelParameters& parameters, CausalLm& model) {
  const ModelNames& names = model.names();
  const std::vector<ParameterInfo> inventory = parameters.inventory();
  return std::any_of(inventory.begin(), inventory.end(), [&](const ParameterInfo& info) {
    const bool of_tokens = info.name.starts_with(std::string(names.embedding) + ".") ||
                           info.name.starts_with(std::string(names.output) + ".");
    const int64_t most = *std::max_element(info.shape.begin(), info.shape.end());
    return of_tokens && info.trains && most > model.config().vocab_size;
  });
}

std::vector<TrainableTensor> trainable(const ParallelParameters& parameters, CausalLm& model) {
  std::set<std::string> layer_norms;
  for (const NamedParameter& parameter : model.parameters()) {
    if (parameter.of_layer_norm) layer_norms.insert(parameter.name);
  }
  std::vector<TrainableTensor> tensors;
  for (const OwnedTensor& owned : parameters.owned()) {
    tensors.push_back({owned.name, owned.tensor, layer_norms.count(owned.name) != 0});
  }
  return tensors;
}

void require_optimizer_fits(const Optimizer& optimizer, const LossScaler& loss_scaler,
                            const OptimizerPlan& plan, bool distributed) {
  if (!optimizer.updates_in_backward()) return;
  if (distributed) {
    throw RunError(ReasonCode::kUnsupported,
                   std::string("optimizer '") + name_of(plan.kind) +
                       "' updates in the backward, before gradients of several ranks are summed; "
                       "one rank works, or an optimizer that updates after it, as adamw_torch");
  }
  if (loss_scaler.scale() != 1.0) {
    throw RunError(ReasonCode::kUnsupported,
                   std::string("optimizer '") + name_of(plan.kind) +
                       "' updates in the backward, before loss scaling knows whether a gradient "
                       "overflowed; autocast bf16 or no works");
  }
}

std::vector<std::string> notes_on(const Optimizer& optimizer, const OptimizerPlan& plan) {
  std::vector<std::string> notes;
  if (const std::string note = row_of(plan.kind).note; !note.empty()) notes.push_back(note);
  if (optimizer.updates_in_backward() && plan.max_grad_norm > 0) {
    notes.push_back(std::string("optim ") + name_of(plan.kind) +
                    " updates each parameter as soon as its gradient is there: gradients are not "
                    "clipped, and grad_norm is that of all micro-batches of a step");
  }
  return notes;
}

std::vector<std::string> warnings_about(const BatchSource& batches) {
  std::vector<std::string> warnings;
  if (const InvocationCount entries = batches.invocations(); entries.without > 0) {
    warnings.push_back(
        entries.with == 0
            ? "no entry has the tokens of alora_invocation_string within model_max_length: "
              "adapters act nowhere and stay as they are"
            : counted(entries.without, "entry lacks", "entries lack") +
                  " the tokens of alora_invocation_string within model_max_length: adapters do not "
                  "act there");
  }
  return warnings;
}

void append(std::vector<std::string>& texts, std::vector<std::string> more) {
  for (std::string& text : more) texts.push_back(std::move(text));
}

// What of the data is not used. `evaluated`: null where nothing is, or the training data have it.
void tell_account(const EncodedEntries& trained, const EncodedEntries* evaluated,
                  TrainBegin& begin) {
  const DataAccount account = trained.account();
  begin.data = to_json(account);
  append(begin.warnings, warnings_about(account, trained.seeks_response()));
  if (evaluated == nullptr || evaluated == &trained) return;
  const DataAccount held_out = evaluated->account();
  begin.data["evaluation"] = to_json(held_out);
  for (const std::string& warning : warnings_about(held_out, evaluated->seeks_response()))
    begin.warnings.push_back("evaluation: " + warning);
}

// Of the entries of all ranks: one rank's share may have none.
void require_loss_of_some_rank(const DataAccount& account, Communicator& world,
                               torch::Device device) {
  if (world.world_size() == 1) return;
  const auto own = static_cast<double>(account.entries - account.without_loss);
  const bool known = account.entries > 0;  // images bear loss
  torch::Tensor with_loss = torch::full({1}, known ? own : 1.0, torch::kFloat64).to(device);
  world.all_reduce_now(with_loss);
  if (with_loss.item<double>() > 0) return;
  throw RunError(ReasonCode::kData,
                 std::string("no entry that the ranks read has a position that bears loss: ") +
                     (account.without_loss_by_cut > 0
                          ? "model_max_length cuts it off; expected a larger one"
                          : "neither a response template, labels nor messages of assistants are in "
                            "them"));
}

// Empty where it grows by no more than the special tokens that are added.
std::vector<std::string> notes_on_vocabulary(const Tokenizer& tokenizer, const CausalLm& model) {
  constexpr int64_t kSpecialTokens = 4;  // BOS, EOS, an unknown token and a pad
  const int64_t rows = model.config().vocab_size, tokens = tokenizer.vocabulary_size();
  if (tokens <= rows + kSpecialTokens) return {};
  return {"the embedding grows from the model's " + std::to_string(rows) +
          " rows (vocab_size) to the " + std::to_string(tokens) + " tokens of the tokenizer"};
}

std::vector<std::string> warnings_about(const TrainingJob& job, const TrainingRun& run) {
  std::vector<std::string> warnings = warnings_about(*run.batches);
  append(warnings, notes_on(*run.optimizer, job.optimizer));
  if (std::string range = narrower_range_warning(job); !range.empty())
    warnings.push_back(std::move(range));
  if (is_distributed(job)) append(warnings, notes_on_ranks(job));
  return warnings;
}

// --- the parts of a run --------------------------------------------------------------------------

std::unique_ptr<ProcessMesh> build_mesh(const TrainingJob& job, RankGroup& group,
                                        torch::Device device) {
  if (!is_distributed(job)) return make_local_mesh();
  return make_process_mesh(row_of(job.parallel.strategy).mesh, group, device,
                           {job.parallel.expert_ranks, job.parallel.context_ranks});
}

// Null where rows are whole.
std::unique_ptr<RankContext> build_context(const TrainingJob& job, ProcessMesh& mesh,
                                           torch::Device device) {
  if (job.parallel.context_ranks == 1) return nullptr;
  return std::make_unique<RankContext>(mesh, device);
}

BatchReader reader_of(const TrainingJob& job, const TrainingRun& run, const RankGroup& group,
                      int64_t pad_id, int64_t virtual_tokens, std::vector<int32_t> invocation) {
  return {.rank = group.rank() / job.parallel.context_ranks,
          .context = run.context.get(),
          .needs_mask = run.model->needs_mask(),
          .device = run.device->device(),
          .pad_id = pad_id,
          .virtual_tokens = virtual_tokens,
          .invocation = std::move(invocation)};
}

// Null unless the job wants one.
std::unique_ptr<Timeline> build_timeline(const TrainingJob& job, ProcessMesh& mesh) {
  if (job.trace_path.empty()) return nullptr;
  auto built = std::make_unique<Timeline>();
  mesh.on_end([timeline = built.get()](const std::string& group, const CollectiveSpan& span) {
    timeline->add("communication " + group,
                  to_string(span.collective) + " " + std::to_string(span.bytes) + " bytes",
                  span.begin_s, span.end_s);
  });
  return built;
}

struct TimedData {
  PreparedData data;
  double seconds;
};

struct ModelAndData {
  PlacedModel placed;
  std::string compute_dtype;
  double weights_seconds;
  TimedData tokenized;
};

// Text is tokenized while weights load: neither needs the other.
ModelAndData load(const TrainingJob& job, const Tokenizer& tokenizer, const Tuning& tuning,
                  torch::Device device, ProcessMesh& mesh, const RankGroup& group,
                  LoadWatch& watch) {
  std::future<TimedData> tokenized = std::async(std::launch::async, [&] {
    const double begin_s = steady_seconds();
    PreparedData data = prepare_data(job, tokenizer, at::get_num_threads(),
                                     group.rank() / job.parallel.context_ranks, watch.entries());
    return TimedData{std::move(data), steady_seconds() - begin_s};
  });
  const double begin_s = steady_seconds();
  PlacedModel placed = place_model(job, choose_kernels(job.kernels), tokenizer.vocabulary_size(),
                                   tuning, device, mesh, watch.weights());
  watch.weights().done = watch.weights().total.load();  // norms and the padding of shards, too
  placed.model->seed_dropout(job.seed);
  placed.model->tile_mlps(job.activations.mlp_tiles);
  std::string compute_dtype = apply_precision(*placed.model, job.precision, device);
  const double weights_seconds = steady_seconds() - begin_s;
  return {std::move(placed), std::move(compute_dtype), weights_seconds, tokenized.get()};
}

TrainBegin describe(const TrainingJob& job, const ModelAndData& loaded, int ranks) {
  CausalLm& model = *loaded.placed.model;
  TrainBegin begin;
  begin.total_steps = loaded.tokenized.data.training.plan.total_steps();
  begin.parameters_total = count_elements(model.parameters());
  begin.parameters_trainable = count_elements(loaded.placed.trained);
  begin.parameters_embedding = count_lookup_elements(model);
  begin.parameters_idle = shape_of(model.config()).idle_parameters();
  begin.compute_dtype = loaded.compute_dtype;
  begin.padding = name_of(job.data.padding);
  begin.tokenizer = tokenizer_origin(job.model);
  begin.weights_seconds = loaded.weights_seconds;
  begin.tokenize_seconds = loaded.tokenized.seconds;
  begin.ranks = ranks;
  return begin;
}

std::unique_ptr<ActivationPolicy> build_activations(const TrainingJob& job, int64_t layers,
                                                    ParallelParameters& parameters,
                                                    torch::Device device, Timeline* timeline) {
  std::unique_ptr<ActivationPolicy> activations =
      choose_activations(job.activations, layers, device);
  if (!is_distributed(job) && timeline == nullptr) return activations;
  return run_units(std::move(activations), job.activations.gradient_checkpointing, parameters,
                   timeline);
}

std::unique_ptr<Optimizer> build_optimizer(const TrainingJob& job,
                                           const ParallelParameters& parameters, CausalLm& model,
                                           torch::Device device) {
  const OptimizerPlan& plan = job.optimizer;
  const std::vector<ParameterGroup> groups =
      group_by_decay(trainable(parameters, model), plan.weight_decay);
  const OptimizerOptions options = {.betas = plan.betas, .epsilon = plan.epsilon};
  if (offloads_shards(job, device)) {
    return make_offloaded(plan.kind, groups, options, Offloaded::kStatesAndParameters, device);
  }
  if (plan.offload_state && offloads_from(device)) {
    return make_offloaded(plan.kind, groups, options, Offloaded::kStates, device);
  }
  return make_optimizer(plan.kind, groups, options);
}

std::unique_ptr<ActivationPolicy> runner_without_backward(const TrainingJob& job,
                                                          const TrainingRun& run) {
  std::unique_ptr<ActivationPolicy> runner = keep_activations();
  if (!is_distributed(job)) return runner;
  return run_units(std::move(runner), /*recomputes=*/false, *run.parameters, nullptr);
}

// Null where no text is wanted.
std::unique_ptr<Generation> build_generation(const TrainingJob& job,
                                             const std::optional<EvaluationData>& data,
                                             const Tokenizer& tokenizer, int64_t virtual_tokens,
                                             TrainingRun& run) {
  if (!data || data->generated.empty()) return nullptr;
  GenerationRows rows = generation_rows(job, *data, tokenizer, run.model->config(), virtual_tokens);
  if (rows.prompts.empty()) return nullptr;
  return std::make_unique<Generation>(
      std::move(rows), std::make_shared<const Tokenizer>(tokenizer.clone()), *run.model,
      *run.parameters, run.mesh->world(), runner_without_backward(job, run), run.device->device());
}

// Null where nothing is evaluated.
std::unique_ptr<Evaluation> build_evaluation(const TrainingJob& job,
                                             std::optional<EvaluationData> data,
                                             const BatchReader& reader, TrainingRun& run) {
  if (!data) return nullptr;
  EvaluationPlan plan = job.evaluation;
  plan.steps = interval_steps(plan.steps, plan.steps_ratio, run.begin.total_steps);
  return std::make_unique<Evaluation>(plan, std::move(*data), *run.model, *run.parameters,
                                      run.mesh->world(), runner_without_backward(job, run), reader);
}

void resume_run(TrainingRun& run, const TrainingJob& job, TrainedState& state) {
  Resumed resumed = resume(job, run.begin.total_steps, state);
  run.progress = resumed.progress;
  run.begin.resumed_from = job.save.resume_from;
  run.begin.resumed_step = resumed.progress.steps;
  append(run.begin.warnings, std::move(resumed.notes));
}

void require_group_fits(const TrainingJob& job, const RankGroup& group) {
  if (job.device.ranks == group.world_size()) return;
  throw RunError(
      ReasonCode::kUnsupported,
      "the job is for " + counted(job.device.ranks, "rank") + ", and this is " +
          (group.world_size() == 1 ? "one process alone"
                                   : "a group of " + std::to_string(group.world_size())));
}

// All that turns gradients into new parameters.
void build_update(const TrainingJob& job, torch::Device device, TrainingRun& run) {
  run.loss_scaler = choose_loss_scaler(job.precision, run.parameters->owned());
  run.optimizer = build_optimizer(job, *run.parameters, *run.model, device);
  if (run.optimizer->updates_in_backward()) {
    for (const NamedLinearGroup& linears : run.model->linear_groups()) linears.group->keep_apart();
  }
  run.schedule = schedule_of(job.optimizer, run.begin.total_steps);
  run.learning_rate = job.optimizer.learning_rate;
  run.max_grad_norm = job.optimizer.max_grad_norm;
  require_optimizer_fits(*run.optimizer, *run.loss_scaler, job.optimizer, is_distributed(job));
}

// What training on the host needs in any case. Null where that is nothing, or is not known.
std::unique_ptr<HostMemoryAhead> take_host_memory(const TrainingJob& job, const RankGroup& group) {
  if (job.device.kind != "cpu" || group.rehearses()) return nullptr;
  const std::optional<MemoryCost> least = memory_at_least(job);
  if (!least) return nullptr;
  const double bytes = least->parameters + least->gradients + least->optimizer_state;
  return std::make_unique<HostMemoryAhead>(static_cast<int64_t>(bytes), at::get_num_threads());
}

}  // namespace

TrainingRun prepare_run(const TrainingJob& job, RankGroup& group, LoadWatch& watch) {
  require_group_fits(job, group);
  require_rows_divide(job);
  require_invocation_fits(job);
  TrainingRun run;
  watch.phase(group.world_size() > 1 ? "meeting the other ranks" : "making the device ready");
  run.device = make_training_device(job.device, group.place());
  const torch::Device device = run.device->device();
  run.mesh = build_mesh(job, group, device);
  run.timeline = build_timeline(job, *run.mesh);
  require_precision(job.precision, device);
  at::globalContext().setAllowTF32CuBLAS(job.precision.tf32);
  require_weights_fit(job);
  // Until the end of this function, beside everything that reads and draws.
  const std::unique_ptr<HostMemoryAhead> memory = take_host_memory(job, group);

  watch.phase("reading the tokenizer");
  const Tokenizer tokenizer = prepare_tokenizer(job.model);
  watch.phase("loading");
  const std::unique_ptr<Tuning> tuning = choose_tuning(job, tokenizer);
  ModelAndData loaded = load(job, tokenizer, *tuning, device, *run.mesh, group, watch);
  run.begin = describe(job, loaded, group.world_size());
  const PreparedData& data = loaded.tokenized.data;
  tell_account(*data.training.dataset, data.evaluation ? data.evaluation->dataset.get() : nullptr,
               run.begin);
  require_loss_of_some_rank(data.training.dataset->account(), run.mesh->world(), device);
  run.expert_group = std::move(loaded.placed.expert_group);
  run.model = std::move(loaded.placed.model);
  run.parameters = std::move(loaded.placed.parameters);

  run.context = build_context(job, *run.mesh, device);
  const BatchReader reader = reader_of(job, run, group, loaded.tokenized.data.training.pad_id,
                                       tuning->virtual_tokens(), invocation_of(job, tokenizer));
  run.batches =
      std::make_unique<BatchSource>(std::move(loaded.tokenized.data.training),
                                    attention_shape(run.model->config(), tuning->virtual_tokens(),
                                                    row_of(job.tuning).trains_weights),
                                    reader, run.mesh->world());
  run.activations =
      build_activations(job, run.model->layer_count(), *run.parameters, device, run.timeline.get());
  run.generation = build_generation(job, loaded.tokenized.data.evaluation, tokenizer,
                                    tuning->virtual_tokens(), run);
  run.evaluation = build_evaluation(job, std::move(loaded.tokenized.data.evaluation), reader, run);
  build_update(job, device, run);
  append(run.begin.warnings, warnings_about(job, run));
  append(run.begin.warnings, notes_on_vocabulary(tokenizer, *run.model));

  TrainedState state{*run.model,
                     *run.parameters,
                     *run.optimizer,
                     *run.loss_scaler,
                     *run.mesh,
                     group,
                     tuning->peft_config(*run.model),
                     adds_text_tokens(tokenizer, run.model->config().vocab_size) ||
                         trains_new_rows(*run.parameters, *run.model)};
  if (!job.save.resume_from.empty()) {
    watch.phase("reading the checkpoint");
    resume_run(run, job, state);
  }
  run.checkpoints = make_checkpoints(job, run.begin.total_steps, state);
  append(run.begin.warnings, notes_on_saving(job, state));
  return run;
}

}  // namespace sftbench
