#include "sftbench/advise/explain.h"

#include <algorithm>
#include <cmath>

#include "sftbench/results/table.h"

namespace sftbench {
namespace {

constexpr double kGigaUnit = 1e9;
constexpr double kBusyShare = 0.1;    // of the time of the run's threads, as measure/ judges it
constexpr double kSmallShare = 0.05;  // of a step: no term that is off by less is named
constexpr double kUneven = 1.1;       // mean over median of steps, where single ones were slow

std::string shortly(double value) {
  if (value == 0) return "0";
  const double scale = std::pow(10, 2 - std::floor(std::log10(std::abs(value))));
  return cell_text(std::round(value * scale) / scale);
}

std::optional<double> number(const Json& extra, const std::string& pointer) {
  const Json value = extra.value(Json::json_pointer(pointer), Json());
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

// A collective of the busiest rank, as both sides count it.
struct CollectiveTerm {
  std::string name;
  double seconds = 0, bytes_per_s = 0;  // measured
  std::optional<double> predicted_s, predicted_bytes_per_s;
};

std::vector<CollectiveTerm> collectives_of(const Json& extra, const StepCost& cost) {
  std::vector<CollectiveTerm> terms;
  for (const Json& c :
       extra.value(Json::json_pointer("/communication/collectives"), Json(Json::array()))) {
    CollectiveTerm term;
    term.name = c.value("operation", std::string());
    term.seconds = c.value("seconds_per_step", 0.0);
    const double sent = c.at("sent_bytes_per_step").value("max", 0.0);
    if (term.seconds > 0) term.bytes_per_s = sent / term.seconds;
    for (const CollectiveCost& predicted : cost.collectives) {
      if (predicted.operation != term.name || predicted.group != c.value("group", std::string()))
        continue;
      term.predicted_s = predicted.seconds;
      if (predicted.seconds > 0)
        term.predicted_bytes_per_s = predicted.sent_bytes / predicted.seconds;
    }
    terms.push_back(term);
  }
  return terms;
}

class Explainer {
 public:
  Explainer(const OwnMeasurement& own, const Json& extra, const Prediction& prediction,
            const Uncertainty& uncertainty)
      : own_(own), extra_(extra), prediction_(prediction), uncertainty_(uncertainty) {}

  Explanation explain() {
    put_step();
    put_parts();
    put_collectives();
    put_memory();
    answer_.sentence = sentence();
    return std::move(answer_);
  }

 private:
  void put(const char* name, std::optional<double> predicted, std::optional<double> measured,
           const char* unit = "s", const std::string& note = {}) {
    answer_.terms.push_back({name, predicted, measured, unit, note});
  }

  void put_step() {
    answer_.step = step_range(prediction_, uncertainty_);
    const bool known = uncertainty_.interval(Figure::kTime, prediction_.at).residuals > 0;
    answer_.within =
        !known || (own_.step_s >= answer_.step.low && own_.step_s <= answer_.step.high);
    // The parts are means over the steps, so only their mean is what the parts add up to.
    put("step", prediction_.cost.step_s, own_.mean_step_s, "s",
        "mean, the median is " + shortly(own_.step_s));
  }

  void put_parts() {
    const StepCost& cost = prediction_.cost;
    const std::optional<double> wait_share = number(extra_, "/communication/wait_fraction/mean");
    const double waiting = wait_share.value_or(0) * own_.mean_step_s;
    const std::optional<double> forward = number(extra_, "/phase_seconds/forward");
    const std::optional<double> backward = number(extra_, "/phase_seconds/backward");
    if (forward && backward) compute_ = std::max(0.0, *forward + *backward - waiting);
    put("compute", cost.compute_s, compute_);
    put("waiting for communication", cost.exposed_s,
        wait_share ? std::optional(waiting)
                   : (own_.job.device.ranks == 1 ? std::optional(0.0) : std::nullopt));
    put("optimizer", cost.optimizer_s + cost.copies_s, number(extra_, "/phase_seconds/optimizer"));
    put("data", 0.0, number(extra_, "/phase_seconds/data"));
    put("host and rest", cost.host_s, number(extra_, "/phase_seconds/rest"));
    contention_ = number(extra_, "/run_queue_wait_share");
    put("waiting for a processor", 0.0,
        contention_ ? std::optional(100 * *contention_) : std::nullopt, "% of the threads' time");
  }

  void put_collectives() {
    collectives_ = collectives_of(extra_, prediction_.cost);
    for (const CollectiveTerm& term : collectives_) {
      std::string note = shortly(term.bytes_per_s / kGigaUnit) + " GB/s sent";
      if (term.predicted_bytes_per_s)
        note += ", predicted " + shortly(*term.predicted_bytes_per_s / kGigaUnit);
      answer_.terms.push_back({term.name, term.predicted_s, term.seconds, "s", note});
    }
  }

  void put_memory() {
    if (!own_.allocated_bytes) return;
    constexpr double kBytesOfAGib = 1 << 30;
    put("memory", prediction_.cost.memory.total() / kBytesOfAGib,
        *own_.allocated_bytes / kBytesOfAGib, "GiB");
  }

  // The part of a step that is furthest from what was predicted; none where all are near.
  const Term* worst_part() const {
    const Term* worst = nullptr;
    double most = kSmallShare * own_.mean_step_s;
    for (const Term& term : answer_.terms) {
      const bool is_part = &term != answer_.terms.data() && std::string(term.unit) == "s" &&
                           term.note.empty() && term.predicted && term.measured;
      if (!is_part) continue;
      const double off = std::abs(*term.measured - *term.predicted);
      if (off <= most) continue;
      most = off;
      worst = &term;
    }
    return worst;
  }

  std::string sentence() const {
    const double off = own_.mean_step_s / prediction_.cost.step_s - 1;
    const std::string size =
        shortly(std::abs(100 * off)) + " % " + (off < 0 ? "shorter" : "longer");
    if (contention_ && *contention_ >= kBusyShare && off > 0) {
      return "The step takes " + size + " than predicted, and the run's threads waited " +
             shortly(100 * *contention_) +
             " % of their time for a processor: other work shares this machine.";
    }
    if (own_.mean_step_s > kUneven * own_.step_s) return uneven();
    if (answer_.within && std::abs(off) < kSmallShare)
      return "Nothing is off: the step takes " + size + " than predicted.";
    const std::string expected =
        answer_.within ? ", which the interval allows" : ", which is outside the interval";
    const std::string head = "The step takes " + size + " than predicted" + expected + ": ";
    const Term* worst = worst_part();
    if (worst == nullptr && !compute_) return head + "the run did not time its parts.";
    if (worst == nullptr) return head + "no part of it stands out.";
    return head + reason(*worst);
  }

  // No part explains what happened to single steps.
  std::string uneven() const {
    const double off = own_.step_s / prediction_.cost.step_s - 1;
    return "Single steps are slow: step " + std::to_string(own_.slowest_step) + " takes " +
           shortly(own_.slowest_step_s) + " s, and their mean is " + shortly(own_.mean_step_s) +
           " s. Their median, " + shortly(own_.step_s) + " s, is " + shortly(std::abs(100 * off)) +
           " % " + (off < 0 ? "shorter" : "longer") + " than predicted, which " +
           (answer_.within ? "the interval allows." : "is outside the interval.");
  }

  std::string reason(const Term& worst) const {
    const std::string part = shortly(*worst.measured) + " of " + shortly(own_.mean_step_s) + " s ";
    if (worst.name == "waiting for communication" && !collectives_.empty()) return slow_link(part);
    const std::string instead = ", where " + shortly(*worst.predicted) + " s were predicted";
    if (worst.name == "compute") {
      return part + "are computation" + instead + " (" +
             shortly(prediction_.cost.flops / *worst.measured / kGigaUnit) +
             " GFLOP/s of a rank instead of " +
             shortly(prediction_.cost.flops / *worst.predicted / kGigaUnit) + ").";
    }
    if (worst.name == "data") return part + "are spent on batches, so data comes too slowly.";
    return part + "go to " + worst.name + instead + ".";
  }

  std::string slow_link(const std::string& part) const {
    const auto slower = [](const CollectiveTerm& a, const CollectiveTerm& b) {
      return a.seconds < b.seconds;
    };
    const CollectiveTerm& most =
        *std::max_element(collectives_.begin(), collectives_.end(), slower);
    std::string text = part + "are waiting for communication, most of it " + most.name + " at " +
                       shortly(most.bytes_per_s / kGigaUnit) + " GB/s";
    if (!most.predicted_bytes_per_s) return text + ".";
    text += " where " + shortly(*most.predicted_bytes_per_s / kGigaUnit) + " were predicted";
    return text + (most.bytes_per_s < *most.predicted_bytes_per_s / 2
                       ? ": the links of this machine are slower than those of its entry."
                       : ".");
  }

  const OwnMeasurement& own_;
  const Json& extra_;
  const Prediction& prediction_;
  const Uncertainty& uncertainty_;
  Explanation answer_;
  std::optional<double> compute_, contention_;
  std::vector<CollectiveTerm> collectives_;
};

}  // namespace

Explanation explain(const OwnMeasurement& own, const Json& extra, const Prediction& prediction,
                    const Uncertainty& uncertainty) {
  return Explainer(own, extra, prediction, uncertainty).explain();
}

}  // namespace sftbench
