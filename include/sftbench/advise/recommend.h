// Which GPUs, how many, and with which batches: every configuration that can train a model on a
// dataset is predicted, and the cheapest and the fastest of those that fit are named, with reasons.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/advise/odds.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/advise/uncertainty.h"
#include "sftbench/catalog/prices.h"
#include "sftbench/variants/padding.h"

namespace sftbench {

// What is trained on. `lengths` are the tokens of the entries in their order; empty: all entries
// are as long as a row may be.
struct Workload {
  int64_t entries = 0;
  int64_t model_max_length = 0;
  double epochs = 1;
  std::vector<int64_t> lengths;
  Padding padding = Padding::kLongest;
  double entries_per_row = 1;  // packed, of those that were counted
  std::string counted;         // what they are and how they were counted, for people

  int64_t longest() const;
  double tokens() const;  // of all epochs, without padding
  // Tokens of an average row in batches of so many entries that are padded to the longest one.
  double padded_length(int64_t batch) const;
};

struct Question {
  const Experiment* experiment = nullptr;
  std::string model;
  Workload workload;
  std::optional<Workload> packed;           // the same entries, tried beside
  int64_t batch = 32;                       // rows of an optimization step, over all devices
  std::vector<std::string> gpus;            // as config/gpus.yaml names them
  std::map<std::string, double> gpu_watts;  // by GPU: the mean that own measurements found
  int64_t most_gpus = 8;
  bool owned = false;           // the GPUs stand there: nothing is rented
  bool by_this_program = true;  // what trains: SHARD_OPTIM and mlp_tiles are its own
  Json given = Json::object();  // properties that the search leaves as they are
  std::optional<double> deadline_s;
  std::optional<double> budget;
  bool allow_tight = false;
  // What may be the probability of running out of memory, instead of a rule for what fits tightly.
  std::optional<double> most_risk;
};

// One configuration and what it would take.
struct Option {
  std::string gpu;
  int64_t gpus = 1;
  int64_t nodes = 1;
  int64_t context_ranks = 1;  // GPUs that each row is divided among
  int64_t batch_per_gpu = 1;  // whole entries; of such a group of GPUs where rows are divided
  int64_t accumulation = 1;
  int64_t rows_per_step = 0;  // over all GPUs
  bool checkpointing = true;
  int64_t mlp_tiles = 1;
  std::string backend;   // distributed_backend; empty: one GPU
  std::string sharding;  // fsdp_sharding_strategy; empty: no shards
  Padding padding = Padding::kLongest;
  Json switches = Json::object();  // properties that save memory, because nothing fits without
  Fit fit = Fit::kUnknown;
  double step_s = 0;
  double hours = 0;                   // expected
  Range hours_range, memory_range;    // nine of ten; memory in bytes
  Interval time_interval;             // what the first rests on
  std::optional<double> memory_risk;  // of dying for memory
  std::optional<Rent> rent;
  std::optional<double> cost;  // of what is rented over `hours`
  // Of the GPUs over `hours`: at the mean power that was measured on such a GPU, and at the most
  // that its board takes.
  std::optional<double> energy_kwh, most_energy_kwh;
  double needed_bytes = 0;
  double memory_bytes = 0;
  MemoryCost memory;
  PredictedCase at;  // an average row
  Json inputs;
};

struct RuledOut {
  std::string reason;
  int64_t options = 0;
};

// Where the choice of the cheapest turns: below this price of an hour, of one GPU, another one is.
struct TurningPrice {
  std::string gpu;
  int64_t gpus = 1;
  double per_hour = 0;
};

struct Recommendation {
  std::optional<Option> cheapest;
  std::optional<Option> fastest;
  std::vector<Option> front;  // no other one is both faster and cheaper
  // The next cheapest, of other GPUs or numbers of them; where nothing has a price the next
  // fastest, of another strategy, checkpointing or padding, too.
  std::vector<Option> alternatives;
  std::vector<Option> unpriced;  // beside a cheapest: the fastest of each GPU without a price
  std::vector<RuledOut> ruled_out;
  std::vector<std::string> reasons;  // of the cheapest, else of the fastest
  int64_t considered = 0;
  TrainingJob job;                  // of that one
  double own_hours = 0;             // that this program would take with it
  std::vector<TurningPrice> turns;  // of the GPUs that are nearest to being the cheapest
};

// RunError(kOomGpu) when no option fits. InputError when nothing ends within deadline and budget,
// or when nothing can be predicted: with the nearest one.
Recommendation recommend(const Question& question, const PriceBook& prices, Oracle& oracle,
                         const Uncertainty& uncertainty);

}  // namespace sftbench
