// What happens during training, as events. The step loop sends them; samplers, progress bar, stop
// rules, logs and the accounting of the measured properties receive them. The loop knows none of
// its observers.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

// Tokens, counted three ways, because rates with different denominators are different numbers.
struct TokenCounts {
  int64_t padded = 0;  // positions that went through the model, padding included
  int64_t dataset =
      0;  // sum over entries of min(tokens of the entry, model_max_length, tokenizer's maximum)
  int64_t loss_bearing = 0;  // positions whose label is not -100 after the shift
  int64_t padding = 0;       // of the padded ones: those that are no entry's

  TokenCounts& operator+=(const TokenCounts& other) {
    padded += other.padded;
    dataset += other.dataset;
    loss_bearing += other.loss_bearing;
    padding += other.padding;
    return *this;
  }
};

// Before training, every now and then: how far a rank has come with what takes its time. Totals are
// 0 while they are not known.
struct LoadEvent {
  std::string phase;               // "meeting the other ranks", "loading", ...
  int64_t weight_bytes = 0;        // of parameters that have their values
  int64_t weight_bytes_total = 0;  // of this rank
  int64_t entries = 0;             // that are tokenized
  int64_t entries_total = 0;

  bool operator==(const LoadEvent&) const = default;
};

// "loading, weights 45 % of 15.0 GiB, 1024 of 4096 entries tokenized"
std::string load_text(const LoadEvent& load);

// Once, when model, data and optimizer stand and before the first step's clock starts.
struct TrainBegin {
  int64_t total_steps = 0;  // optimization steps that are planned
  int64_t parameters_total = 0;
  int64_t parameters_trainable = 0;
  // Rows that are looked up and take part in no GEMM: the input embedding unless it is tied to the
  // output, positions.
  int64_t parameters_embedding = 0;
  int64_t parameters_idle = 0;  // of a mixture of experts: those that a token does not go through
  std::string compute_dtype;    // dtype that GEMMs really run in: "bfloat16", "float32", ...
  std::string padding;          // "longest", "max_length", "none" or "packed"
  std::string tokenizer;        // where it came from
  double weights_seconds = 0;   // building and loading the model
  double tokenize_seconds = 0;
  int ranks = 1;
  std::string resumed_from;           // checkpoint that the run goes on from; empty: it begins
  int64_t resumed_step = 0;           // optimization steps that were done there
  std::vector<std::string> warnings;  // where the run differs from what was asked, a sentence each
  // The data that the first rank reads, and which parts of them it does not use
  // (data/data_account.h).
  Json data = Json::object();
};

// Where a step's seconds went, by the clock of the host, or, on a GPU, which runs behind its host,
// by events of its stream. What is left to the whole step is the reduction of the loss, waiting for
// other ranks behind the update, and notes.
struct StepPhases {
  double data_s = -1;     // until the first micro-batch is there; -1: not measured
  double forward_s = -1;  // of all micro-batches
  double backward_s =
      -1;  // with what checkpointing computes again, and the communication of gradients
  double update_s = -1;  // the norm of gradients, clipping and the optimizer
};

// After each optimization step, once the optimizer has written the parameters (device
// synchronized).
struct StepEvent {
  int64_t step = 0;  // 1-based
  double epoch = 0;
  double begin_s = 0;  // steady_seconds() around the whole step
  double end_s = 0;
  double loss = 0;              // as Hugging Face logs it
  double grad_norm = 0;         // before clipping; not finite if the update was skipped
  bool update_skipped = false;  // scaled gradients overflowed: neither optimizer nor schedule moved
  double learning_rate = 0;     // that this step used
  int64_t samples = 0;
  int64_t micro_batches = 0;
  TokenCounts tokens;  // of this step, over all ranks
  double attention_flops =
      0;  // causal attention FLOPs of this step's forward pass (lengths squared do not average)
  int64_t device_allocated_bytes = 0;
  double pause_s = 0;  // before begin_s, since the step before: the run evaluated or wrote files
  StepPhases phases;   // of rank 0
};

// After a step, on entries that no step trains on.
struct EvaluationEvent {
  int64_t step = 0;  // optimization steps before it
  double epoch = 0;
  // Trainer's eval_loss: each micro-batch's mean over its positions that bear loss, with a
  // mixture's auxiliary loss, weighted by its entries. Depends on the size of micro-batches.
  double loss = 0;
  double token_loss =
      0;  // mean over all positions that bear loss; its exponential is the perplexity
  int64_t entries = 0;
  int64_t tokens = 0;  // positions that bear loss
  double seconds = 0;
};

// Set by observers, read by the loop after each step.
struct TrainControl {
  bool stop = false;
};

// One rank's own account of one optimization step, by its own clock.
struct RankStep {
  double begin_s = 0;
  double end_s = 0;
  double communication_wait_s = 0;  // of these, the rank did nothing but wait for other ranks' data
  int64_t samples = 0;
  TokenCounts tokens;
  double pause_s = 0;  // before begin_s, as StepEvent's
};

// What one collective operation cost a rank over all its steps, what came before the first one
// (loading) left out.
struct CollectiveReport {
  std::string group;      // "world", "shards", "replicas"
  std::string operation;  // "all_gather"
  int64_t calls = 0;
  int64_t sent_bytes = 0;
  double seconds = 0;
};

struct RankReport {
  int rank = 0;
  int node = 0;
  std::string host;
  std::vector<RankStep> steps;
  std::vector<CollectiveReport> collectives;
  // What the rank keeps between steps, counted from its tensors, and the most that gathered units
  // took at once.
  int64_t parameter_bytes = 0;
  int64_t gradient_bytes = 0;
  int64_t optimizer_state_bytes = 0;
  int64_t gathered_peak_bytes = 0;
  int64_t device_peak_allocated_bytes = -1;  // -1: on CPUs
  int64_t device_peak_reserved_bytes = -1;
  // How often the caching allocator found no room, gave what it had cached back to the device and
  // asked again: each holds host and device. -1: on CPUs.
  int64_t allocation_retries = -1;
  int64_t host_peak_rss_bytes = 0;
  int64_t host_peak_tensor_bytes = -1;  // of CPU tensors while it trained; -1: on GPUs
};

// A folder that the run wrote.
struct SavedFolder {
  std::string path;
  std::string format;  // "FULL", "SHARDED", "LOCAL"
  int64_t step = 0;    // optimization steps that it holds
  int64_t bytes = 0;   // of all files, over all ranks
  double seconds = 0;
};

// One that it could not write, as on a full disk. The training went on.
struct UnsavedFolder {
  std::string path;
  int64_t step = 0;     // optimization steps that it was to hold
  std::string problem;  // of the first rank that had one
};

// How evenly a mixture used its experts: measure/expert_load.h. Series have a number for each step.
struct ExpertLoad {
  int64_t count = 0;  // experts of a layer; 0: the model has none
  int64_t per_token = 0;
  int64_t ranks = 1;  // that the experts are divided among
  std::vector<double> tokens_per_expert;
  std::vector<double> imbalance;
  std::vector<double> worst_imbalance;
  std::vector<double> busiest_share;
  std::vector<double> rank_imbalance;
  std::vector<std::vector<int64_t>> tokens_by_layer;  // of all steps together
};

// What rank 0's GPU held when its tensors took most.
struct MemoryPeak {
  std::string place;  // "backward pass, layer 31": where the allocation was made that made it so
  int64_t allocation_bytes = 0;                       // of that one
  std::vector<std::pair<std::string, int64_t>> held;  // bytes, by the place that allocated them
};

// What the model wrote behind the beginning of a held-out entry: greedy decoding.
struct GeneratedText {
  std::string prompt;    // the entry up to its first position that bears loss; its first half where
                         // all bear loss
  std::string expected;  // what follows in the entry
  std::string before;    // by the model before the first step of this run
  std::string after;     // by the trained model
};

struct TrainEnd {
  int64_t steps = 0;       // that were done, those before a resumption not counted
  int64_t best_step = -1;  // of the least evaluation loss; -1: nothing was evaluated
  double best_loss = 0;
  std::vector<SavedFolder> saved;
  std::vector<UnsavedFolder> unsaved;
  std::vector<RankReport> ranks;                     // in rank order
  std::vector<int64_t> device_peak_allocated_bytes;  // per rank; empty on CPUs
  std::vector<int64_t> device_peak_reserved_bytes;
  std::vector<int64_t> host_peak_rss_bytes;  // per rank
  ExpertLoad experts;
  MemoryPeak memory_peak;  // where an observer wants it, and of GPUs
  std::vector<GeneratedText> generated;
};

class TrainObserver {
 public:
  virtual ~TrainObserver() = default;
  // Asked before the first step. Following every allocation costs the host some time.
  virtual bool wants_memory_peak() const { return false; }
  // From a thread of its own, before on_train_begin.
  virtual void on_load(const LoadEvent&) {}
  virtual void on_train_begin(const TrainBegin&) {}
  virtual void on_step_end(const StepEvent&, TrainControl&) {}
  virtual void on_evaluation(const EvaluationEvent&) {}
  virtual void on_train_end(const TrainEnd&) {}
};

}  // namespace sftbench
