#include "sftbench/advise/recommend.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "advise/most_telling.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kSecondsOfAnHour = 3600;
constexpr int64_t kGpusOfANode = 8;
constexpr size_t kAlternatives = 3;
const std::string kSharded = "FSDP", kWhole = "DDP";

std::string gib(double bytes) {
  return cell_text(std::round(bytes / kGiB * 10) / 10) + " GiB";
}

std::string hours_text(double hours) {
  return cell_text(short_figure(hours)) + " h";
}

std::string in_words(const Option& option, const std::string& currency) {
  return std::to_string(option.gpus) + " x " + option.gpu + ", " + hours_text(option.hours) +
         (option.cost ? ", " + cell_text(short_figure(*option.cost)) + " " + currency
                      : std::string());
}

// Of dying, where it is known.
std::string risk_text(const Option& option) {
  if (!option.memory_risk) return {};
  return ", and runs out of memory with " + cell_text(std::round(1000 * *option.memory_risk) / 10) +
         " %";
}

bool is_cheaper(const Option& a, const Option& b) {
  if (*a.cost != *b.cost) return *a.cost < *b.cost;
  return a.hours < b.hours;
}

bool is_faster(const Option& a, const Option& b) {
  if (a.hours != b.hours) return a.hours < b.hours;
  return a.cost.value_or(0) < b.cost.value_or(0);
}

class Recommender {
 public:
  Recommender(const Question& question, const PriceBook& prices, Oracle& oracle,
              const Uncertainty& uncertainty)
      : question_(question), prices_(prices), oracle_(oracle), uncertainty_(uncertainty) {}

  Recommendation recommend() {
    for (const std::string& gpu : question_.gpus) {
      for (int64_t gpus = 1; gpus <= question_.most_gpus; gpus *= 2) consider(gpu, gpus);
    }
    for (const Option& option : options_) {
      if (!is_refused(option)) {
        left_.push_back(option);
      } else if (limit_refusal(option).empty()) {
        doubtful_.push_back(option);
      }
    }
    if (left_.empty()) refuse();
    choose();
    for (const auto& [reason, count] : refusals_) answer_.ruled_out.push_back({reason, count});
    return std::move(answer_);
  }

 private:
  // --- all options
  void consider(const std::string& gpu, int64_t gpus) {
    for (int64_t batch = 1; batch * gpus <= question_.batch; batch *= 2) {
      if (question_.batch % (batch * gpus) != 0) continue;
      for (const std::string& backend : backends(gpus)) consider(gpu, gpus, 1, batch, backend);
    }
    if (question_.experiment->tuning == TuningMethod::kPrompt) return;  // its rows stay whole
    for (int64_t among = 2; among <= gpus; among *= 2) consider_parts(gpu, gpus, among);
  }

  // Less than a row for each GPU: what no batch of whole rows is.
  void consider_parts(const std::string& gpu, int64_t gpus, int64_t among) {
    const int64_t groups = gpus / among;
    for (int64_t batch = 1; batch < among && batch * groups <= question_.batch; batch *= 2) {
      if (question_.batch % (batch * groups) != 0) continue;
      consider(gpu, gpus, among, batch, fixed("distributed_backend") ? "" : kSharded);
    }
  }

  bool fixed(const char* property) const { return question_.given.contains(property); }

  // How several GPUs share a model: in shards, or each has all of it.
  std::vector<std::string> backends(int64_t gpus) const {
    if (gpus == 1 || fixed("distributed_backend")) return {""};
    return {kSharded, kWhole};
  }

  void consider(const std::string& gpu, int64_t gpus, int64_t among, int64_t batch,
                const std::string& backend) {
    const Json given = question_.given.value("gradient_checkpointing", Json());
    for (const bool checkpointing : {true, false}) {
      if (given.is_null() || given == checkpointing)
        consider(gpu, gpus, among, batch, backend, checkpointing);
    }
  }

  void consider(const std::string& gpu, int64_t gpus, int64_t among, int64_t batch,
                const std::string& backend, bool checkpointing) {
    Option option;
    option.backend = backend;
    option.gpu = gpu;
    option.gpus = gpus;
    option.nodes = std::max<int64_t>(1, gpus / kGpusOfANode);
    option.context_ranks = among;
    option.batch_per_gpu = batch;
    option.accumulation = question_.batch / (batch * gpus / among);
    option.checkpointing = checkpointing;
    ++answer_.considered;
    try {
      predict(option);
      options_.push_back(std::move(option));
    } catch (const RunError& error) {
      ++refusals_[error.what()];
    } catch (const InputError& error) {  // of a GPU that has no unit for the dtype
      ++refusals_[error.what()];
    }
  }

  Json inputs_of(const Option& option, int64_t length) const {
    Json inputs = {{"model_name", question_.model},
                   {"gpu_model", option.gpu},
                   {"number_gpus", option.gpus},
                   {"number_nodes", option.nodes},
                   {"model_max_length", length},
                   {"batch_size", option.gpus / option.context_ranks * option.batch_per_gpu},
                   {"gradient_accumulation_steps", option.accumulation},
                   {"gradient_checkpointing", option.checkpointing}};
    if (option.context_ranks > 1) inputs["context_parallel"] = option.context_ranks;
    if (!option.backend.empty()) inputs["distributed_backend"] = option.backend;
    if (!fixed("torch_dtype") && !has_bfloat16(option.gpu)) inputs["torch_dtype"] = "float16";
    inputs.update(question_.given);
    return inputs;
  }

  static bool has_bfloat16(const std::string& gpu) {
    const GpuFacts* facts = Catalog::shipped().gpus.find(gpu);
    return facts == nullptr || facts->peak_flops("bfloat16").has_value();
  }

  Prediction predict_at(const Option& option, int64_t length) {
    return oracle_.predict(request_of(*question_.experiment, inputs_of(option, length)));
  }

  // Memory is that of the longest row, time that of an average one.
  void predict(Option& option) {
    const Workload& work = question_.workload;
    const Prediction worst = predict_at(option, work.longest());
    option.fit = worst.fit;
    option.memory = worst.cost.memory;
    option.needed_bytes = needed_bytes(worst.cost, worst.job, worst.machine);
    option.memory_bytes = worst.machine.memory_bytes;
    const double length = work.padded_length(option.batch_per_gpu);
    const auto rounded = std::max<int64_t>(1, std::llround(length));
    const Prediction usual = rounded == work.longest() ? worst : predict_at(option, rounded);
    put_intervals(option, worst, usual);
    option.hours = option.hours_range.expected;
    option.rent = prices_.rent(option.gpu, option.gpus);
    if (option.rent) option.cost = option.hours * option.rent->per_hour;
    option.at = usual.at;
    option.inputs = inputs_of(option, work.model_max_length);
    put_energy(option);
  }

  void put_energy(Option& option) const {
    const double kilo_gpu_hours = option.hours * static_cast<double>(option.gpus) / 1e3;
    const auto measured = question_.gpu_watts.find(option.gpu);
    if (measured != question_.gpu_watts.end())
      option.energy_kwh = kilo_gpu_hours * measured->second;
    const GpuFacts* gpu = Catalog::shipped().gpus.find(option.gpu);
    if (gpu != nullptr && gpu->board_power_watts)
      option.most_energy_kwh = kilo_gpu_hours * *gpu->board_power_watts;
  }

  void put_intervals(Option& option, const Prediction& worst, const Prediction& usual) const {
    const Workload& work = question_.workload;
    const double steps =
        static_cast<double>(work.entries) * work.epochs / static_cast<double>(question_.batch);
    const double hours = std::ceil(steps) / kSecondsOfAnHour;
    const Range step = step_range(usual, uncertainty_);
    option.step_s = step.expected;
    option.hours_range = {hours * step.low, hours * step.expected, hours * step.high};
    option.time_interval = uncertainty_.interval(Figure::kTime, usual.at);
    option.memory_range = memory_range(worst, uncertainty_);
    if (const std::optional<Odds> odds = odds_of(worst, uncertainty_))
      option.memory_risk = odds->dies;
  }

  // --- those that are left
  std::string memory_refusal(const Option& option) const {
    if (question_.most_risk && option.memory_risk) {
      if (*option.memory_risk > *question_.most_risk) return "risks more to run out of memory";
    } else if (option.fit == Fit::kDies) {
      return "does not fit";
    } else if (option.fit == Fit::kTight && !question_.allow_tight) {
      return "fits so tightly that it may die (--allow-tight takes it)";
    }
    return {};
  }

  std::string refusal(const Option& option) const {
    std::string reason = memory_refusal(option);
    return reason.empty() ? limit_refusal(option) : reason;
  }

  std::string limit_refusal(const Option& option) const {
    if (question_.deadline_s && option.hours * kSecondsOfAnHour > *question_.deadline_s) {
      return "ends after the deadline";
    }
    if (!question_.budget) return {};
    if (!option.cost) return "has no price, so the budget cannot be kept (--prices FILE)";
    return *option.cost > *question_.budget ? "costs more than the budget" : "";
  }

  bool is_refused(const Option& option) {
    const std::string reason = refusal(option);
    if (!reason.empty()) ++refusals_[reason];
    return !reason.empty();
  }

  // The nearest one to what was asked for.
  [[noreturn]] void refuse() const {
    std::vector<Option> fitting;
    for (const Option& option : options_) {
      if (memory_refusal(option).empty()) fitting.push_back(option);
    }
    if (fitting.empty()) refuse_for_memory();
    const Option& fastest = *std::min_element(fitting.begin(), fitting.end(), is_faster);
    std::string nearest = "the fastest that fits: " + in_words(fastest, prices_.currency);
    std::erase_if(fitting, [](const Option& option) { return !option.cost; });
    if (!fitting.empty()) {
      nearest +=
          "; the cheapest: " +
          in_words(*std::min_element(fitting.begin(), fitting.end(), is_cheaper), prices_.currency);
    }
    const std::string key = !question_.deadline_s ? "--budget"
                            : question_.budget    ? "--deadline, --budget"
                                                  : "--deadline";
    throw InputError({{{}, 0, key, "no configuration keeps it", nearest, {}}});
  }

  [[noreturn]] void refuse_for_memory() const {
    if (options_.empty()) {
      const std::string why = refusals_.empty() ? "no GPU is left" : refusals_.begin()->first;
      throw InputError({{{}, 0, {}, "no configuration can be predicted: " + why, "", {}}});
    }
    const Option& least =
        *std::min_element(options_.begin(), options_.end(), [](const Option& a, const Option& b) {
          return a.needed_bytes / a.memory_bytes < b.needed_bytes / b.memory_bytes;
        });
    throw RunError(ReasonCode::kOomGpu,
                   "no configuration fits; expected more or larger GPUs, a shorter --length or "
                   "another --method: the nearest, " +
                       std::to_string(least.gpus) + " x " + least.gpu + ", needs " +
                       gib(least.needed_bytes) + " of " + gib(least.memory_bytes) +
                       risk_text(least));
  }

  // --- the answer
  void choose() {
    answer_.fastest = *std::min_element(left_.begin(), left_.end(), is_faster);
    std::vector<Option> priced = left_;
    std::erase_if(priced, [](const Option& option) { return !option.cost; });
    std::sort(priced.begin(), priced.end(), is_cheaper);
    if (!priced.empty()) {
      answer_.cheapest = priced.front();
      put_alternatives(priced);
      put_front(priced);
    }
    const Option& best = answer_.cheapest ? *answer_.cheapest : *answer_.fastest;
    explain(best);
    put_job(best);
    put_turns(priced);
    ask_for_most(priced);
  }

  void put_job(const Option& best) {
    const int64_t length = question_.workload.longest();
    const MeasurementRequest request = request_of(*question_.experiment, inputs_of(best, length));
    const Prediction ours = oracle_.predict(request, "sftbench");
    answer_.job = ours.job;
    answer_.own_hours = best.hours * ours.cost.step_s / predict_at(best, length).cost.step_s;
  }

  // Each GPU at the number of them that needs the least fall of its price.
  void put_turns(const std::vector<Option>& by_cost) {
    if (by_cost.empty()) return;
    const Option& best = by_cost.front();
    std::map<std::string, std::pair<double, TurningPrice>> by_gpu;
    for (const Option& option : by_cost) {
      if (option.gpu == best.gpu) continue;
      const double share = *best.cost / *option.cost;
      const double price = option.rent->per_hour / static_cast<double>(option.rent->gpus) * share;
      by_gpu.try_emplace(option.gpu, share, TurningPrice{option.gpu, option.gpus, price});
    }
    std::vector<std::pair<double, TurningPrice>> turns;
    for (auto& [gpu, turn] : by_gpu) turns.push_back(std::move(turn));
    std::sort(turns.begin(), turns.end(),
              [](const auto& a, const auto& b) { return a.first > b.first; });
    for (const auto& [share, turn] : turns) {
      if (answer_.turns.size() < kAlternatives) answer_.turns.push_back(turn);
    }
  }

  void ask_for_most(const std::vector<Option>& priced) {
    if (priced.empty()) {
      answer_.next = most_telling(
          *answer_.fastest, left_, doubtful_, [](const Option& option) { return option.hours; },
          uncertainty_);
      return;
    }
    std::erase_if(doubtful_, [](const Option& option) { return !option.cost; });
    answer_.next = most_telling(
        *answer_.cheapest, priced, doubtful_, [](const Option& option) { return *option.cost; },
        uncertainty_);
  }

  static bool are_alike(const Option& a, const Option& b) {
    return a.gpu == b.gpu && a.gpus == b.gpus;
  }

  void put_alternatives(const std::vector<Option>& by_cost) {
    std::vector<Option>& others = answer_.alternatives;
    for (const Option& option : by_cost) {
      const auto alike = [&option](const Option& other) { return are_alike(option, other); };
      if (alike(by_cost.front()) || alike(*answer_.fastest)) continue;
      if (std::any_of(others.begin(), others.end(), alike)) continue;
      others.push_back(option);
      if (others.size() == kAlternatives) return;
    }
  }

  void put_front(const std::vector<Option>& by_cost) {
    for (const Option& option : by_cost) {
      if (answer_.front.empty() || option.hours < answer_.front.back().hours)
        answer_.front.push_back(option);
    }
  }

  void explain(const Option& best) {
    const MemoryCost& m = best.memory;
    const double state = m.gradients + m.optimizer_state;
    answer_.reasons.push_back("a GPU holds " + gib(m.parameters) + " of parameters, " + gib(state) +
                              " of gradients and optimizer state and " +
                              gib(best.needed_bytes - m.parameters - state) +
                              " of the rest, of its " + gib(best.memory_bytes));
    if (best.gpus > 1) explain_fewer(best);
    if (best.context_ranks > 1) explain_division(best);
    if (!best.checkpointing) return;
    const Option* without = without_checkpointing(best);
    if (without == nullptr) return;
    answer_.reasons.push_back("without gradient checkpointing it " +
                              (without->fit == Fit::kFits ? "takes " + hours_text(without->hours)
                                                          : "needs " + gib(without->needed_bytes)));
  }

  // Why half as many GPUs are not better: the best that they can do.
  void explain_fewer(const Option& best) {
    const int64_t half = best.gpus / 2;
    const Option* fewer = nullptr;
    for (const Option& option : options_) {
      if (option.gpu != best.gpu || option.gpus != half) continue;
      if (fewer == nullptr || better(option, *fewer)) fewer = &option;
    }
    if (fewer == nullptr) return;
    std::string text = std::to_string(half) + (half == 1 ? " GPU " : " GPUs ");
    if (fewer->fit != Fit::kFits) {
      text += "would need " + gib(fewer->needed_bytes) + " of " + gib(fewer->memory_bytes);
    } else {
      text += "would take " + hours_text(fewer->hours);
      if (fewer->cost)
        text += " and cost " + cell_text(short_figure(*fewer->cost)) + " " + prices_.currency;
    }
    answer_.reasons.push_back(std::move(text));
  }

  // Why rows are divided: the best that less division can do.
  void explain_division(const Option& best) {
    const Option* whole = nullptr;
    for (const Option& option : options_) {
      if (option.gpu != best.gpu || option.gpus != best.gpus) continue;
      if (option.context_ranks != best.context_ranks / 2) continue;
      if (whole == nullptr || better(option, *whole)) whole = &option;
    }
    if (whole == nullptr) return;
    const std::string division =
        whole->context_ranks == 1
            ? "whole rows"
            : "rows divided among " + std::to_string(whole->context_ranks) + " GPUs";
    answer_.reasons.push_back(
        division + (whole->fit == Fit::kFits
                        ? " take " + hours_text(whole->hours)
                        : " need " + gib(whole->needed_bytes) + " of " + gib(whole->memory_bytes)));
  }

  static bool better(const Option& a, const Option& b) {
    const bool fits = a.fit == Fit::kFits, other_fits = b.fit == Fit::kFits;
    if (fits != other_fits) return fits;
    return fits ? a.hours < b.hours : a.needed_bytes < b.needed_bytes;
  }

  const Option* without_checkpointing(const Option& best) const {
    for (const Option& option : options_) {
      if (option.gpu == best.gpu && option.gpus == best.gpus &&
          option.context_ranks == best.context_ranks && option.backend == best.backend &&
          option.batch_per_gpu == best.batch_per_gpu && !option.checkpointing)
        return &option;
    }
    return nullptr;
  }

  const Question& question_;
  const PriceBook& prices_;
  Oracle& oracle_;
  const Uncertainty& uncertainty_;
  std::vector<Option> options_, left_;
  std::vector<Option> doubtful_;  // ruled out for memory alone
  std::map<std::string, int64_t> refusals_;
  Recommendation answer_;
};

}  // namespace

int64_t Workload::longest() const {
  if (lengths.empty()) return model_max_length;
  return std::min(model_max_length, *std::max_element(lengths.begin(), lengths.end()));
}

double Workload::tokens() const {
  double once = static_cast<double>(entries * model_max_length);
  if (!lengths.empty()) {
    once = 0;
    for (const int64_t length : lengths)
      once += static_cast<double>(std::min(length, model_max_length));
  }
  return once * epochs;
}

double Workload::padded_length(int64_t batch) const {
  if (lengths.empty()) return static_cast<double>(model_max_length);
  double positions = 0;
  const auto step = static_cast<size_t>(batch);
  for (size_t begin = 0; begin < lengths.size(); begin += step) {
    const size_t end = std::min(begin + step, lengths.size());
    const int64_t longest = *std::max_element(lengths.begin() + static_cast<ptrdiff_t>(begin),
                                              lengths.begin() + static_cast<ptrdiff_t>(end));
    positions +=
        static_cast<double>(std::min(longest, model_max_length)) * static_cast<double>(end - begin);
  }
  return positions / static_cast<double>(lengths.size());
}

Recommendation recommend(const Question& question, const PriceBook& prices, Oracle& oracle,
                         const Uncertainty& uncertainty) {
  check(question.experiment != nullptr && question.workload.entries > 0,
        "there is something to train, and a way to");
  return Recommender(question, prices, oracle, uncertainty).recommend();
}

}  // namespace sftbench
