#include "advise/option_space.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "sftbench/catalog/catalog.h"
#include "sftbench/variants/sharding_strategy.h"

namespace sftbench {
namespace {

constexpr double kOff = 1.5,
                 kMostOff = 2;  // entries of a step, over those that are asked, or below
constexpr const char* kBackend = "distributed_backend";
constexpr const char* kSharding = "fsdp_sharding_strategy";
constexpr const char* kCheckpointing = "gradient_checkpointing";
constexpr const char* kOffloadOptimizer = "offload_optimizer";
constexpr const char* kOffloadActivations = "offload_activations";
constexpr const char* kOffloadParameters = "offload_params";
constexpr const char* kTiles = "mlp_tiles";
constexpr const char* kDtype = "torch_dtype";
constexpr const char* kMixedPrecision = "accelerate_config_mixed_precision";
const std::string kSharded = "FSDP", kWhole = "DDP";

bool has_bfloat16(const std::string& gpu) {
  const GpuFacts* facts = Catalog::shipped().gpus.find(gpu);
  return facts == nullptr || facts->peak_flops("bfloat16").has_value();
}

// All that is trained needs float32 and a scaled loss, or float16 loses its updates. Adapters are
// few, and their base stays as it is.
Json precision_in_float16(TuningMethod tuning) {
  if (tuning != TuningMethod::kFull) return {{kDtype, "float16"}};
  return {{kDtype, "float32"}, {kMixedPrecision, "fp16"}};
}

// Batches that divide `rows`. Each is larger than the one before by a quarter at least, since a
// batch between two of them is hardly faster.
std::vector<int64_t> batches_of(int64_t rows) {
  std::vector<int64_t> batches = {1};
  for (int64_t batch = 2; batch <= rows; ++batch) {
    if (rows % batch == 0 && (4 * batch >= 5 * batches.back() || batch == rows))
      batches.push_back(batch);
  }
  return batches;
}

class OptionSpace {
 public:
  OptionSpace(const Question& question, const Json& switches)
      : question_(question), switches_(switches), packed_rows_(packed_rows(question)) {
    const ModelFacts* model = Catalog::shipped().models.find(question.model);
    const bool has_experts = model != nullptr && model->experts() > 0;
    may_tile_ = question.by_this_program && !has_experts && !question.given.contains(kTiles) &&
                !switches.contains(kTiles);
  }

  std::vector<Option> take() {
    add_of(question_.workload);
    if (question_.packed) add_of(*question_.packed);
    return std::move(options_);
  }

 private:
  void add_of(const Workload& work) {
    Option option;
    option.padding = work.padding;
    option.switches = switches_;
    for (const std::string& gpu : question_.gpus) {
      option.gpu = gpu;
      for (const int64_t gpus : gpu_counts(question_)) {
        option.gpus = gpus;
        option.nodes = std::max<int64_t>(1, gpus / kGpusOfANode);
        add_divisions(option);
      }
    }
  }

  // Batches of whole rows, and rows that are divided among several GPUs.
  void add_divisions(Option option) {
    const bool stays_whole = question_.experiment->tuning == TuningMethod::kPrompt;
    const int64_t most = stays_whole ? 1 : option.gpus;
    for (int64_t among = 1; among <= most; among *= 2) {
      if (option.gpus % among != 0) continue;
      option.context_ranks = among;
      const int64_t groups = option.gpus / among;
      const int64_t rows = is_packed(option) ? packed_rows_ : question_.batch;
      if (rows == 0 || rows % groups != 0) continue;
      option.rows_per_step = rows;
      const int64_t of_group = rows / groups;
      for (const int64_t batch : batches_of(of_group)) {
        if (among > 1 && batch >= among) break;
        option.batch_per_gpu = batch;
        option.accumulation = of_group / batch;
        add_strategies(option);
      }
    }
  }

  bool is_packed(const Option& option) const {
    return question_.packed && option.padding == question_.packed->padding;
  }

  // Rows of packed entries are fewer: as many as hold about the entries that are asked for, on any
  // number of GPUs. Most of these numbers divide them. None are near enough: 0.
  static int64_t packed_rows(const Question& question) {
    if (!question.packed) return 0;
    const int64_t near = packed_rows_within(kOff, question);
    return near > 0 ? near : packed_rows_within(kMostOff, question);
  }

  static int64_t packed_rows_within(double most_off, const Question& question) {
    const double asked = static_cast<double>(question.batch) / question.packed->entries_per_row;
    const auto off = [asked](int64_t rows) {
      const double ratio = static_cast<double>(rows) / asked;
      return std::max(ratio, 1 / ratio);
    };
    const std::vector<int64_t> counts = gpu_counts(question);
    const auto divided = [&counts](int64_t rows) {
      return std::count_if(counts.begin(), counts.end(),
                           [rows](int64_t gpus) { return rows % gpus == 0; });
    };
    int64_t best = 0;
    const auto last = static_cast<int64_t>(asked * most_off);
    for (int64_t rows = std::max<int64_t>(1, std::llround(asked / most_off)); rows <= last;
         ++rows) {
      if (off(rows) > most_off) continue;
      const bool more = best == 0 || divided(rows) > divided(best);
      if (more || (divided(rows) == divided(best) && off(rows) < off(best))) best = rows;
    }
    return best;
  }

  void add_strategies(Option option) {
    for (const auto& [backend, sharding] : strategies(option)) {
      option.backend = backend;
      option.sharding = sharding;
      for (const bool checkpointing : {true, false}) {
        option.checkpointing = checkpointing;
        const Json given = question_.given.value(kCheckpointing, Json());
        if (!given.is_null() && given != checkpointing) continue;
        // Layers that checkpointing computes again hold one MLP at a time anyway.
        for (const int64_t tiles : {int64_t{1}, kFewTiles}) {
          option.mlp_tiles = tiles;
          if (tiles == 1 || (may_tile_ && !checkpointing)) add(option);
        }
      }
    }
  }

  // How several GPUs share a model: in shards, of all that stands or of all but what two passes
  // need, or each has all of it. What is given stays, and rows are divided among shards alone.
  std::vector<std::pair<std::string, std::string>> strategies(const Option& option) const {
    if (option.gpus == 1) return {{"", ""}};
    const Json& given = question_.given;
    if (given.contains(kBackend) && given[kBackend] != kSharded)
      return {{given[kBackend].is_string() ? given[kBackend].get<std::string>() : "", ""}};
    if (given.contains(kSharding)) return {{kSharded, given[kSharding].get<std::string>()}};
    std::vector<std::pair<std::string, std::string>> found;
    for (const StrategyRow& row : kStrategies) {
      const bool there = row.mesh != MeshKind::kHybrid || option.nodes > 1;
      const bool has_it = row.shards() || (row.optimizer_alone && question_.by_this_program);
      if (there && has_it) found.emplace_back(kSharded, row.name);
    }
    if (!given.contains(kBackend) && option.context_ranks == 1) found.emplace_back(kWhole, "");
    return found;
  }

  void add(const Option& option) {
    const Json& switches = option.switches;
    if (switches.contains(kOffloadActivations) && !option.checkpointing) return;
    if (switches.contains(kOffloadParameters) && option.sharding.empty()) return;
    options_.push_back(option);
  }

  const Question& question_;
  const Json& switches_;
  const int64_t packed_rows_;  // of a step
  bool may_tile_ = false;
  std::vector<Option> options_;
};

}  // namespace

std::vector<int64_t> gpu_counts(const Question& question) {
  std::vector<int64_t> counts;
  for (int64_t gpus = 1; gpus <= question.most_gpus; gpus *= 2) counts.push_back(gpus);
  if (counts.back() != question.most_gpus) counts.push_back(question.most_gpus);
  return counts;
}

std::vector<Option> options_to_try(const Question& question, const Json& switches) {
  return OptionSpace(question, switches).take();
}

std::vector<Json> memory_ladder(const Question& question) {
  std::vector<Json> ladder;
  Json all = Json::object();
  for (const auto& [property, value] : {std::pair<std::string, Json>(kTiles, kFewTiles),
                                        {kOffloadOptimizer, true},
                                        {kOffloadActivations, true},
                                        {kOffloadParameters, true}}) {
    const bool has_it = property != kTiles || question.by_this_program;
    if (!has_it || question.given.contains(property)) continue;
    const Json alone = {{property, value}};
    all.update(alone);
    ladder.push_back(alone);
    if (all.size() > 1) ladder.push_back(all);
  }
  return ladder;
}

void DeadOptions::add(const Option& option) {
  const auto [least, is_new] = least_batch_.try_emplace(key(option), option.batch_per_gpu);
  if (!is_new) least->second = std::min(least->second, option.batch_per_gpu);
}

bool DeadOptions::needs_more(const Option& option) const {
  Option lighter = option;
  lighter.checkpointing = true;
  lighter.mlp_tiles = 1;
  Option lightest = lighter;
  if (option.gpus > 1) {
    lightest.backend = kSharded;
    lightest.sharding = name_of(Strategy::kFullShard);
  }
  return has(option) || has(lighter) || has(lightest);
}

DeadOptions::Key DeadOptions::key(const Option& option) {
  return {option.gpu,       option.gpus,     option.context_ranks,
          option.backend,   option.sharding, option.checkpointing,
          option.mlp_tiles, option.padding,  option.accumulation == 1};
}

bool DeadOptions::has(const Option& option) const {
  const auto least = least_batch_.find(key(option));
  return least != least_batch_.end() && option.batch_per_gpu >= least->second;
}

Json inputs_of(const Question& question, const Option& option, int64_t length) {
  Json inputs = {{"model_name", question.model},
                 {"gpu_model", option.gpu},
                 {"number_gpus", option.gpus},
                 {"number_nodes", option.nodes},
                 {"model_max_length", length},
                 {"batch_size", option.gpus / option.context_ranks * option.batch_per_gpu},
                 {"gradient_accumulation_steps", option.accumulation},
                 {kCheckpointing, option.checkpointing}};
  if (option.context_ranks > 1) inputs["context_parallel"] = option.context_ranks;
  if (!option.backend.empty()) inputs[kBackend] = option.backend;
  if (!option.sharding.empty()) inputs[kSharding] = option.sharding;
  const Json& given = question.given;
  const bool chooses =
      !given.contains(kDtype) && !given.contains(kMixedPrecision) && !given.contains("bf16");
  if (chooses && !has_bfloat16(option.gpu))
    inputs.update(precision_in_float16(question.experiment->tuning));
  if (option.mlp_tiles > 1) inputs[kTiles] = option.mlp_tiles;
  inputs.update(option.switches);
  inputs.update(question.given);
  return inputs;
}

}  // namespace sftbench
