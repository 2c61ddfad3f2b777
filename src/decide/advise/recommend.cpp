#include "sftbench/advise/recommend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "advise/option_space.h"
#include "sftbench/base/error.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kSecondsOfAnHour = 3600;
constexpr size_t kAlternatives = 3;
constexpr const char* kDoesNotFit = "does not fit";

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
    refuse_undivided(try_all(Json::object()));
    for (const Json& switches : memory_ladder(question_)) {
      if (fits_any()) break;
      try_all(switches);
    }
    for (const Option& option : options_) {
      if (!is_refused(option)) left_.push_back(option);
    }
    if (left_.empty()) refuse();
    choose();
    for (const auto& [reason, count] : refusals_) answer_.ruled_out.push_back({reason, count});
    return std::move(answer_);
  }

 private:
  // --- all options
  std::set<int64_t> try_all(const Json& switches) {
    std::set<int64_t> counts;
    DeadOptions dead;
    for (Option& option : options_to_try(question_, switches)) {
      counts.insert(option.gpus);
      if (option.context_ranks > 1 && has_room(option)) continue;
      ++answer_.considered;
      if (dead.needs_more(option)) {
        ++refusals_[kDoesNotFit];
        continue;
      }
      try {
        predict(option);
        if (is_dead(option)) dead.add(option);
        options_.push_back(std::move(option));
      } catch (const RunError& error) {
        ++refusals_[error.what()];
      } catch (const InputError& error) {  // of a GPU that has no unit for the dtype
        ++refusals_[error.what()];
      }
    }
    return counts;
  }

  // Rows that are divided less fit without checkpointing: dividing them more only adds
  // communication.
  bool has_room(const Option& divided) const {
    return std::any_of(options_.rbegin(), options_.rend(), [&divided](const Option& option) {
      return option.gpu == divided.gpu && option.gpus == divided.gpus &&
             option.padding == divided.padding && option.context_ranks < divided.context_ranks &&
             !option.checkpointing && option.mlp_tiles == 1 && option.fit == Fit::kFits;
    });
  }

  // Far from fitting: no measurement would be of use, and no risk of the user's.
  bool is_dead(const Option& option) const {
    constexpr double kCertain = 0.99;
    return option.fit == Fit::kDies && memory_refusal(option) != "" &&
           option.memory_risk.value_or(1) > kCertain;
  }

  void refuse_undivided(const std::set<int64_t>& counts) {
    for (const int64_t gpus : gpu_counts(question_)) {
      if (counts.count(gpus) > 0) continue;
      ++answer_.considered;
      ++refusals_["a step of " + std::to_string(question_.batch) + " is not divided among " +
                  std::to_string(gpus) + " GPUs (--batch)"];
    }
  }

  bool fits_any() const {
    return std::any_of(options_.begin(), options_.end(),
                       [this](const Option& option) { return memory_refusal(option).empty(); });
  }

  Prediction predict_at(const Option& option, int64_t length) {
    oracle_.set_padding(option.padding);
    return oracle_.predict(request_of(*question_.experiment, inputs_of(question_, option, length)));
  }

  const Workload& work_of(const Option& option) const {
    const std::optional<Workload>& packed = question_.packed;
    return packed && packed->padding == option.padding ? *packed : question_.workload;
  }

  // Of its longest row, and of an average one in batches of so many; kept, since each walks through
  // all entries.
  int64_t longest_of(const Option& option) {
    int64_t& longest = longest_[option.padding];
    if (longest == 0) longest = work_of(option).longest();
    return longest;
  }

  int64_t usual_of(const Option& option) {
    const int64_t batch = option.padding == Padding::kPacked ? 1 : option.batch_per_gpu;
    int64_t& usual = usual_[{option.padding, batch}];
    if (usual == 0)
      usual = std::max<int64_t>(1, std::llround(work_of(option).padded_length(batch)));
    return usual;
  }

  // Memory is that of the longest row, time that of an average one.
  void predict(Option& option) {
    const int64_t longest = longest_of(option), length = usual_of(option);
    const Prediction worst = predict_at(option, longest);
    option.fit = worst.fit;
    option.memory = worst.cost.memory;
    option.needed_bytes = worst.needed_bytes;
    option.memory_bytes = worst.machine.memory_bytes;
    const Prediction usual = length == longest ? worst : predict_at(option, length);
    put_intervals(option, worst, usual);
    option.hours = option.hours_range.expected;
    if (!question_.owned) option.rent = prices_.rent(option.gpu, option.gpus);
    if (option.rent) option.cost = option.hours * option.rent->per_hour;
    option.at = usual.at;
    option.inputs = inputs_of(question_, option, question_.workload.model_max_length);
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
    const Workload& work = work_of(option);
    const double steps =
        static_cast<double>(work.entries) * work.epochs / static_cast<double>(option.rows_per_step);
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
      return kDoesNotFit;
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

  // A number without a unit is of seconds, which nobody may have meant.
  std::string deadline_words() const {
    if (!question_.deadline_s) return {};
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), " within %g s (with units: 90s, 30m, 6h, 2d)",
                  *question_.deadline_s);
    return text.data();
  }

  // With the nearest one to what was asked for.
  [[noreturn]] void refuse() const {
    std::vector<Option> fitting;
    for (const Option& option : options_) {
      if (memory_refusal(option).empty()) fitting.push_back(option);
    }
    if (fitting.empty()) refuse_for_memory();
    const Option& fastest = *std::min_element(fitting.begin(), fitting.end(), is_faster);
    std::string nearest = "the fastest that fits: " + in_words(fastest, prices_.currency);
    const bool in_time =
        !question_.deadline_s || fastest.hours * kSecondsOfAnHour <= *question_.deadline_s;
    std::erase_if(fitting, [](const Option& option) { return !option.cost; });
    bool in_budget = !question_.budget;
    if (!fitting.empty()) {
      const Option& cheapest = *std::min_element(fitting.begin(), fitting.end(), is_cheaper);
      nearest += "; the cheapest: " + in_words(cheapest, prices_.currency);
      in_budget = in_budget || *cheapest.cost <= *question_.budget;
    }
    // Where each is kept, it is by another configuration.
    const std::string key = in_time == in_budget ? "--deadline, --budget"
                            : in_time            ? "--budget"
                                                 : "--deadline";
    const std::string words = key == "--budget" ? std::string() : deadline_words();
    throw InputError({{{}, 0, key, "no configuration keeps it" + words, nearest, {}}});
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
      put_unpriced();
    } else {
      std::sort(left_.begin(), left_.end(), is_faster);
      put_alternatives(left_);
    }
    const Option& best = answer_.cheapest ? *answer_.cheapest : *answer_.fastest;
    explain(best);
    put_job(best);
    put_turns(priced);
  }

  void put_job(const Option& best) {
    const int64_t length = longest_of(best);
    const Prediction theirs = predict_at(best, length);
    const MeasurementRequest request =
        request_of(*question_.experiment, inputs_of(question_, best, length));
    const Prediction ours = oracle_.predict(request, "sftbench");
    answer_.job = theirs.job;
    answer_.own_hours = best.hours * ours.step_s / theirs.step_s;
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

  // Whoever has the GPUs chooses a strategy; whoever rents them, GPUs.
  static bool are_alike(const Option& a, const Option& b) {
    if (a.gpu != b.gpu || a.gpus != b.gpus) return false;
    return a.cost ||
           (a.backend == b.backend && a.sharding == b.sharding && a.padding == b.padding &&
            a.checkpointing == b.checkpointing && a.mlp_tiles == b.mlp_tiles);
  }

  // The next ones of a ranking.
  void put_alternatives(const std::vector<Option>& ranked) {
    std::vector<Option>& others = answer_.alternatives;
    for (const Option& option : ranked) {
      const auto alike = [&option](const Option& other) { return are_alike(option, other); };
      if (alike(ranked.front()) || alike(*answer_.fastest)) continue;
      if (std::any_of(others.begin(), others.end(), alike)) continue;
      others.push_back(option);
      if (others.size() == kAlternatives) return;
    }
  }

  void put_unpriced() {
    std::map<std::string, Option> fastest;
    for (const Option& option : left_) {
      if (option.cost) continue;
      const auto [known, is_new] = fastest.try_emplace(option.gpu, option);
      if (!is_new && is_faster(option, known->second)) known->second = option;
    }
    for (auto& [gpu, option] : fastest) answer_.unpriced.push_back(std::move(option));
    std::sort(answer_.unpriced.begin(), answer_.unpriced.end(), is_faster);
  }

  void put_front(const std::vector<Option>& by_cost) {
    for (const Option& option : by_cost) {
      if (answer_.front.empty() || option.hours < answer_.front.back().hours)
        answer_.front.push_back(option);
    }
  }

  // Whoever owns GPUs expects all of them at work.
  void explain_idle(const Option& best) {
    const int64_t owned = question_.most_gpus, rows = question_.batch;
    if (!question_.owned || best.gpus == owned || rows % owned == 0) return;
    const std::string fewer = rows > owned ? std::to_string(rows - rows % owned) + " or " : "";
    answer_.reasons.push_back(counted(best.gpus, "GPU") + " of " + std::to_string(owned) +
                              ": a step of " + counted(rows, "row") + " is not divided among " +
                              std::to_string(owned) + ", one of " + fewer +
                              std::to_string(rows - rows % owned + owned) + " is (--batch)");
  }

  void explain(const Option& best) {
    explain_idle(best);
    if (!best.switches.empty()) explain_switches(best);
    const MemoryCost& m = best.memory;
    const double state = m.gradients + m.optimizer_state;
    answer_.reasons.push_back("a GPU holds " + gib(m.parameters) + " of parameters, " + gib(state) +
                              " of gradients and optimizer state and " +
                              gib(best.needed_bytes - m.parameters - state) +
                              " of the rest, of its " + gib(best.memory_bytes));
    if (best.gpus > 1) explain_fewer(best);
    if (best.context_ranks > 1) explain_division(best);
    if (best.checkpointing) {
      Option without = best;
      without.checkpointing = false;
      explain_without("gradient checkpointing", std::move(without));
    } else if (best.mlp_tiles > 1) {
      Option without = best;
      without.mlp_tiles = 1;
      explain_without("mlp_tiles " + std::to_string(best.mlp_tiles), std::move(without));
    }
  }

  void explain_without(const std::string& what, Option without) {
    try {
      predict(without);
    } catch (const RunError&) {  // another choice needs it
      return;
    }
    answer_.reasons.push_back("without " + what + " it " +
                              (without.fit == Fit::kFits ? "takes " + hours_text(without.hours)
                                                         : "needs " + gib(without.needed_bytes)));
  }

  void explain_switches(const Option& best) {
    std::string names;
    bool copies = false;
    for (const auto& [property, value] : best.switches.items()) {
      names += (names.empty() ? "" : " and ") + property;
      copies = copies || property.starts_with("offload_");
    }
    const MemoryCost& m = best.memory;
    const double host_bytes =
        static_cast<double>(best.gpus) / static_cast<double>(best.nodes) *
        (m.offloaded_state + m.offloaded_activations + m.offloaded_parameters);
    answer_.reasons.push_back(
        "nothing fits without " + names +
        (copies ? ": the host holds " + gib(host_bytes) +
                      ", and hours count copies at the rate of its slot, which nothing measured"
                : ""));
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
    std::string text = counted(half, "GPU") + " ";
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

  const Question& question_;
  const PriceBook& prices_;
  Oracle& oracle_;
  const Uncertainty& uncertainty_;
  std::vector<Option> options_, left_;
  std::map<std::string, int64_t> refusals_;
  std::map<Padding, int64_t> longest_;
  std::map<std::pair<Padding, int64_t>, int64_t> usual_;
  Recommendation answer_;
};

}  // namespace

Recommendation recommend(const Question& question, const PriceBook& prices, Oracle& oracle,
                         const Uncertainty& uncertainty) {
  check(question.experiment != nullptr && question.workload.entries > 0,
        "there is something to train, and a way to");
  return Recommender(question, prices, oracle, uncertainty).recommend();
}

}  // namespace sftbench
