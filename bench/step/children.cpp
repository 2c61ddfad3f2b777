#include "step/children.h"

#include <torch/torch.h>

#include <fstream>
#include <random>
#include <vector>

#include "engine/host_memory.h"
#include "engine/prepare_parallel.h"
#include "engine/training_run.h"
#include "sftbench/base/clock.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json.h"
#include "sftbench/engine/make_engine.h"
#include "sftbench/measure/host_info.h"
#include "sftbench/measure/proc.h"
#include "step/plain_model.h"

namespace sftbench::bench {
namespace {

Json smollm2_config() {
  return {{"model_type", "llama"},
          {"architectures", {"LlamaForCausalLM"}},
          {"vocab_size", 49152},
          {"hidden_size", 576},
          {"intermediate_size", 1536},
          {"num_hidden_layers", 30},
          {"num_attention_heads", 9},
          {"num_key_value_heads", 3},
          {"max_position_embeddings", 8192},
          {"rms_norm_eps", 1e-5},
          {"rope_theta", 100000.0},
          {"initializer_range", 0.02},
          {"hidden_act", "silu"},
          {"tie_word_embeddings", true}};
}

// Random words, at least two tokens each under any byte-level vocabulary that does not know them.
void write_texts(const std::string& path, int64_t entries, int64_t words) {
  std::ofstream file(path);
  std::mt19937 random(42);
  for (int64_t entry = 0; entry < entries; ++entry) {
    std::string text = "### Input:\nx\n\n### Response:";
    for (int64_t word = 0; word < words; ++word) {
      text += ' ';
      for (int letter = 0; letter < 5; ++letter) text += static_cast<char>('a' + random() % 26);
    }
    file << Json{{"output", text}}.dump() << '\n';
  }
}

// One of them by its name, or all "kernels".
void switch_off(KernelPlan& kernels, const std::string& name) {
  const bool all = name == "kernels";
  const std::pair<const char*, bool*> switches[] = {{"loss", &kernels.fused_loss},
                                                    {"rms_norm", &kernels.fused_rms_norm},
                                                    {"rope", &kernels.fused_rope},
                                                    {"attention", &kernels.flash_attention}};
  for (const auto& [kernel, on] : switches) {
    if (all || name == kernel) *on = false;
  }
}

// Offload of one thing, its copies made on this CPU, or what it is compared with. Shards are those
// of one rank. False for another name.
bool choose_offload(TrainingJob& job, const std::string& name) {
  const bool sharded = name == "sharded" || name == "offload_params";
  const bool known =
      sharded || name == "kept" || name == "offload_optimizer" || name == "offload_activations";
  if (!known) return false;
  copy_on_cpus(true);
  job.optimizer.offload_state = name == "offload_optimizer";
  job.activations.offload = name == "offload_activations";
  job.parallel.offload = name == "offload_params";
  job.parallel.strategy = Strategy::kFullShard;
  job.parallel.distribute_one_rank = sharded;
  return true;
}

class StepTimes : public TrainObserver {
 public:
  void on_step_end(const StepEvent& event, TrainControl&) override {
    if (seconds.empty()) first_step_age_s = process_age_seconds();
    seconds.push_back(event.end_s - event.begin_s);
    losses.push_back(event.loss);
    padded_tokens += event.tokens.padded;
  }

  std::string text() const {
    return Json{{"step_seconds", seconds},
                {"losses", losses},
                {"tokens_per_step", padded_tokens / static_cast<int64_t>(seconds.size())},
                {"first_step_process_age_s", first_step_age_s},
                {"peak_rss_bytes", peak_rss_bytes()}}
        .dump();
  }

  std::vector<double> seconds, losses;
  double first_step_age_s = 0;
  int64_t padded_tokens = 0;
};

// What the second of two accumulated micro-batches adds to the memory in use: the gradients are
// there already, so all of it is activations and working memory.
int64_t activation_peak_bytes(TrainingRun& run, ActivationPolicy& policy) {
  const StepBatches batches = run.batches->step(0);
  const DeviceBatch& batch = batches.micro_batches.front();
  int64_t resting = 0;
  for (int pass = 0; pass < 2; ++pass) {
    resting = host_memory_statistics().allocated_bytes;
    reset_host_memory_peak();
    policy.backward(run.model->loss(batch.input_ids, batch.labels,
                                    static_cast<double>(batches.tokens.loss_bearing), policy));
  }
  const int64_t peak = host_memory_statistics().peak_allocated_bytes;
  run.parameters->drop_gradients();
  return peak - resting;
}

}  // namespace

TrainingJob random_job(const std::string& tuning, const Work& work,
                       const std::string& dataset_path) {
  write_texts(dataset_path, work.steps, work.length);
  TrainingJob job;
  job.model.name = work.config.empty() ? "smollm2-135m" : work.config;
  job.model.hf_config =
      work.config.empty() ? smollm2_config() : parse_json(read_file(work.config), work.config);
  job.data.path = dataset_path;
  job.data.model_max_length = work.length;
  job.batches.max_steps = work.steps;
  job.precision.torch_dtype = named<ParameterDtype>(work.dtype);
  job.activations.gradient_checkpointing = work.checkpointing;
  if (const std::string off = "no_"; tuning.rfind(off, 0) == 0) {
    switch_off(job.kernels, tuning.substr(off.size()));
  } else if (!choose_offload(job, tuning)) {
    job.tuning = named<TuningMethod>(tuning);
  }
  job.lora.target_modules = {"q_proj", "v_proj"};
  job.prompt.init = "RANDOM";
  return job;
}

std::string run_engine(const TrainingJob& job) {
  StepTimes times;
  make_engine()->train_job(job, *make_single_rank(), {&times}, [] { return false; });
  return times.text();
}

std::string run_plain(const Work& work) {
  at::set_num_threads(read_host_info().cores);
  torch::manual_seed(42);
  const LlamaShape shape;
  const PlainLlama model(shape, work.dtype == "float32" ? torch::kFloat32 : torch::kBFloat16);
  const std::vector<torch::Tensor> parameters = model.parameters();
  torch::optim::AdamW optimizer(parameters, torch::optim::AdamWOptions(1e-5).weight_decay(0));
  StepTimes times;
  for (int64_t step = 1; step <= work.steps; ++step) {
    const torch::Tensor ids = torch::randint(0, shape.vocabulary, {1, work.length}, torch::kInt64);
    StepEvent event;
    event.begin_s = steady_seconds();
    const torch::Tensor loss = model.loss(ids, ids);
    loss.backward();
    torch::nn::utils::clip_grad_norm_(parameters, 1.0);
    optimizer.step();
    optimizer.zero_grad();
    event.loss = loss.item<double>();
    event.end_s = steady_seconds();
    event.tokens.padded = work.length;
    TrainControl control;
    times.on_step_end(event, control);
  }
  return times.text();
}

std::string measure_activations(const Work& work, const std::string& dataset_path) {
  const std::unique_ptr<RankGroup> alone = make_single_rank();
  TrainingRun run = prepare_run(random_job("full",
                                           {.dtype = work.dtype,
                                            .length = work.length,
                                            .steps = 2,
                                            .checkpointing = true,
                                            .config = {}},
                                           dataset_path),
                                *alone);
  const auto keep = keep_activations();
  const auto segments = checkpoint_segments(run.model->layer_count());
  const auto reentrant = checkpoint_reentrant(run.model->layer_count());
  return Json{{"kept", activation_peak_bytes(run, *keep)},
              {"checkpointed", activation_peak_bytes(run, *segments)},
              {"checkpointed_reentrant", activation_peak_bytes(run, *reentrant)}}
      .dump();
}

}  // namespace sftbench::bench
