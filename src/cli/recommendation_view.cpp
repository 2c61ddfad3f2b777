#include "cli/recommendation_view.h"

#include <algorithm>
#include <cmath>

#include "cli/assumptions.h"
#include "cli/evidence_option.h"
#include "cli/quantized_method.h"
#include "cli/rounding.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/families/decoder_like.h"
#include "sftbench/plan/known_model.h"
#include "sftbench/plan/support.h"

namespace sftbench {
namespace {

Json price_per_million(const Option& option, double tokens) {
  return option.cost ? Json(short_figure(*option.cost / tokens * 1e6)) : Json();
}

Json as_json(const Option& option, double tokens) {
  return {{"gpu", option.gpu},
          {"gpus", option.gpus},
          {"rented_gpus", option.rent ? Json(option.rent->gpus) : Json()},
          {"nodes", option.nodes},
          {"context_parallel", option.context_ranks},
          {"batch_per_gpu", option.batch_per_gpu},
          {"gradient_accumulation_steps", option.accumulation},
          {"gradient_checkpointing", option.checkpointing},
          {"distributed_backend", option.backend.empty() ? Json() : Json(option.backend)},
          {"fsdp_sharding_strategy", option.sharding.empty() ? Json() : Json(option.sharding)},
          {"padding", name_of(option.padding)},
          {"mlp_tiles", option.inputs.value("mlp_tiles", 1)},
          {"saves_memory_by", option.switches},
          {"hours", option.hours},
          {"hours_interval", option.time_interval.residuals > 0
                                 ? Json({{"low", option.hours_range.low},
                                         {"high", option.hours_range.high},
                                         {"level", 0.9},
                                         {"measurements", option.time_interval.residuals},
                                         {"basis", option.time_interval.basis}})
                                 : Json()},
          {"step_seconds", option.step_s},
          {"cost", option.cost ? Json(*option.cost) : Json()},
          {"cost_per_million_tokens", price_per_million(option, tokens)},
          {"energy_kwh", option.energy_kwh ? Json(*option.energy_kwh) : Json()},
          {"energy_kwh_at_most", option.most_energy_kwh ? Json(*option.most_energy_kwh) : Json()},
          {"memory_bytes", option.needed_bytes},
          {"memory_interval_bytes", {option.memory_range.low, option.memory_range.high}},
          {"memory_available_bytes", option.memory_bytes},
          {"out_of_memory_risk", option.memory_risk ? Json(*option.memory_risk) : Json()},
          {"verdict", name_of(option.fit)},
          {"inputs", option.inputs}};
}

bool is_predicted_alone(const RecommendationView& view) {
  const QuantizedMethod* method = quantized_method_of(view.stack);
  return method != nullptr && !method->trains;
}

bool has_measured_energy(const Recommendation& answer) {
  const auto measured = [](const Option& option) { return option.energy_kwh.has_value(); };
  return (answer.cheapest && measured(*answer.cheapest)) || measured(*answer.fastest) ||
         std::any_of(answer.alternatives.begin(), answer.alternatives.end(), measured) ||
         std::any_of(answer.front.begin(), answer.front.end(), measured);
}

Json hours_interval_text(const Option& option) {
  if (option.time_interval.residuals == 0) return {};
  return cell_text(short_figure(option.hours_range.low)) + " to " +
         cell_text(short_figure(option.hours_range.high));
}

std::string energy_text(const Option& option) {
  if (option.energy_kwh) return cell_text(short_figure(*option.energy_kwh)) + " kWh";
  if (!option.most_energy_kwh) return {};
  return "at most " + cell_text(short_figure(*option.most_energy_kwh)) + " kWh";
}

Json figure_or_null(const std::optional<double>& value) {
  return value ? Json(short_figure(*value)) : Json();
}

class Rows {
 public:
  explicit Rows(const RecommendationView& view)
      : tokens_(view.tokens()),
        with_tiles_(view.question.by_this_program),
        with_padding_(!view.question.workload.lengths.empty()),
        with_cost_(!view.question.owned),
        with_energy_(has_measured_energy(view.answer)) {
    const std::string& currency = view.prices.currency;
    table_.columns = {"choice",        "gpu",          "gpus",
                      "backend",       "sharding",     "context_parallel",
                      "batch_per_gpu", "accumulation", "checkpointing"};
    if (with_tiles_) table_.columns.emplace_back("mlp_tiles");
    if (with_padding_) table_.columns.emplace_back("padding");
    for (const char* name : {"hours", "90_%_of_hours"}) table_.columns.emplace_back(name);
    if (with_cost_) {
      table_.columns.push_back("cost_" + currency);
      table_.columns.push_back(currency + "_per_Mtoken");
    }
    if (with_energy_) table_.columns.emplace_back("kWh");
    for (const char* name : {"kWh_at_most", "memory_GiB", "oom_%", "verdict"})
      table_.columns.emplace_back(name);
  }

  void add(const std::string& choice, const Option& option) {
    std::vector<Json> row = {choice,
                             option.gpu,
                             option.gpus,
                             option.backend.empty() ? Json() : Json(option.backend),
                             option.sharding.empty() ? Json() : Json(option.sharding),
                             option.context_ranks,
                             option.batch_per_gpu,
                             option.accumulation,
                             option.checkpointing};
    if (with_tiles_) row.push_back(option.inputs.value("mlp_tiles", 1));
    if (with_padding_) row.emplace_back(name_of(option.padding));
    row.emplace_back(short_figure(option.hours));
    row.push_back(hours_interval_text(option));
    if (with_cost_) {
      row.push_back(figure_or_null(option.cost));
      row.push_back(price_per_million(option, tokens_));
    }
    if (with_energy_) row.push_back(figure_or_null(option.energy_kwh));
    row.push_back(figure_or_null(option.most_energy_kwh));
    row.emplace_back(rounded_to(option.needed_bytes / kGiB, 10));
    row.push_back(option.memory_risk ? Json(rounded_to(100 * *option.memory_risk, 10)) : Json());
    row.emplace_back(name_of(option.fit));
    table_.rows.push_back(std::move(row));
  }

  Table take() { return std::move(table_); }

 private:
  double tokens_;
  bool with_tiles_;
  bool with_padding_;
  bool with_cost_;
  bool with_energy_;
  Table table_;
};

// What energy rests on.
std::string energy_basis(const RecommendationView& view) {
  const Option& best = view.best();
  const auto watts = view.question.gpu_watts.find(best.gpu);
  if (watts != view.question.gpu_watts.end()) {
    return energy_text(best) + " at " + cell_text(std::round(watts->second)) +
           " W, the mean that was measured on this GPU";
  }
  return energy_text(best) + ", by what the board takes: no run on this GPU told its power";
}

// Those of the catalog that were not tried, where the user named none.
std::vector<std::string> gpus_without_price(const RecommendationView& view) {
  const std::vector<std::string>& tried = view.question.gpus;
  std::vector<std::string> names;
  for (const GpuFacts& gpu : Catalog::shipped().gpus.gpus()) {
    const bool was_tried = std::find(tried.begin(), tried.end(), gpu.name) != tried.end();
    if (view.all_gpus && !was_tried) names.push_back(gpu.name);
  }
  return names;
}

// Of those that were tried.
std::string unpriced_text(const RecommendationView& view) {
  const Recommendation& answer = view.answer;
  if (view.question.owned) return {};
  std::vector<std::string> names;
  for (const Option& option : answer.unpriced) names.push_back(option.gpu);
  if (!answer.cheapest) names = view.question.gpus;
  if (names.empty()) return {};
  return join(names) + (answer.cheapest ? "" : ", ranked by time") +
         ": not considered for cost: no price (--prices FILE gives one, --own N asks none)";
}

std::string offer_text(const Rent& rent, int64_t needed, const std::string& currency) {
  const Price& price = rent.offer;
  std::vector<std::string> words;
  for (const std::string& word :
       {price.provider, price.instance, price.kind, price.region, price.date, price.source}) {
    if (!word.empty()) words.push_back(word);
  }
  std::string text = cell_text(short_figure(price.per_hour)) + " " + currency + "/h a GPU";
  if (price.gpus > 1) text += " of " + std::to_string(price.gpus) + " that are rented together";
  if (rent.gpus > needed)
    text += ", so " + std::to_string(rent.gpus) + " are paid for " + std::to_string(needed);
  if (!words.empty()) text += ": " + join(words);
  return text + (price.mark == "recalled" ? "; recalled, check it" : "");
}

}  // namespace

Definitions assumptions_of(const RecommendationView& view) {
  const Question& question = view.question;
  const Option& best = view.best();
  Definitions lines = assumptions_of(view.answer.job, view.stack);
  if (question.owned) {
    lines.emplace_back("", "yours: " + std::to_string(question.most_gpus) + " x " +
                               join(question.gpus, " or ") +
                               ", ranked by time without a price (--own)");
  }
  lines.emplace_back("", question.workload.lengths.empty()
                             ? "each of " + counted(question.workload.entries, "entry", "entries") +
                                   " has " + counted(question.workload.model_max_length, "token") +
                                   " (--data FILE counts yours)"
                             : view.work().counted);
  if (const std::string beyond =
          note_on_positions(view.answer.job.model, question.workload.model_max_length);
      !beyond.empty())
    lines.emplace_back("", beyond);
  if (best.padding == Padding::kPacked) {
    lines.emplace_back(
        "",
        counted(best.rows_per_step, "row of a step holds", "rows of a step hold") + " about " +
            counted(
                std::llround(static_cast<double>(best.rows_per_step) * view.work().entries_per_row),
                "entry", "entries") +
            (question.packed ? ", and " + std::to_string(question.batch) + " are asked (--batch)"
                             : std::string(" (--batch counts rows)")));
  }
  if (question.workload.epochs != 1) {
    lines.emplace_back("", cell_text(question.workload.epochs) + " epochs: " +
                               cell_text(question.workload.tokens()) + " tokens in all (--epochs)");
  }
  return lines;
}

Table table_of(const RecommendationView& view) {
  const Recommendation& answer = view.answer;
  Rows rows(view);
  if (answer.cheapest) rows.add("cheapest", *answer.cheapest);
  if (answer.fastest) rows.add("fastest", *answer.fastest);
  for (const Option& option : answer.alternatives) rows.add("alternative", option);
  for (const Option& option : answer.unpriced) rows.add("no price", option);
  for (const Option& option : answer.front) rows.add("front", option);
  return rows.take();
}

Json as_json(const RecommendationView& view) {
  const auto& [answer, question, prices, own_model, stack, all_gpus, of_data] = view;
  const double tokens = view.tokens();
  const auto list = [tokens](const std::vector<Option>& options) {
    Json all = Json::array();
    for (const Option& option : options) all.push_back(as_json(option, tokens));
    return all;
  };
  Json ruled_out = Json::array();
  for (const RuledOut& out : answer.ruled_out)
    ruled_out.push_back({{"reason", out.reason}, {"options", out.options}});
  Json book = Json::array();
  for (const Price& price : prices.offers) {
    book.push_back({{"gpu", price.gpu},
                    {"provider", price.provider},
                    {"instance", price.instance},
                    {"gpus", price.gpus},
                    {"per_hour", price.per_hour},
                    {"kind", price.kind},
                    {"region", price.region},
                    {"date", price.date},
                    {"mark", price.mark}});
  }
  Json turns = Json::array();
  for (const TurningPrice& turn : answer.turns)
    turns.push_back({{"gpu", turn.gpu}, {"gpus", turn.gpus}, {"per_hour_below", turn.per_hour}});
  return {
      {"prediction", true},
      {"stack", stack},
      {"assumes", {{"experiment", question.experiment->identifier}, {"inputs", answer.job.inputs}}},
      {"experiment", question.experiment->identifier},
      {"model", question.model},
      {"entries", question.workload.entries},
      {"tokens", tokens},
      {"cheapest", answer.cheapest ? as_json(*answer.cheapest, tokens) : Json()},
      {"fastest", answer.fastest ? as_json(*answer.fastest, tokens) : Json()},
      {"front", list(answer.front)},
      {"alternatives", list(answer.alternatives)},
      {"unpriced", list(answer.unpriced)},
      {"owned", question.owned},
      {"reasons", answer.reasons},
      {"own_hours", answer.own_hours},
      {"turning_prices", std::move(turns)},
      {"without_price", gpus_without_price(view)},
      {"considered", answer.considered},
      {"ruled_out", std::move(ruled_out)},
      {"prices", {{"file", prices.file}, {"currency", prices.currency}, {"book", book}}}};
}

std::string command_of(const Option& option, const RecommendationView& view) {
  std::string command = "sftbench run --experiment " + view.question.experiment->identifier;
  if (!view.own_model.empty()) command += " --model " + shell_quoted(view.own_model);
  for (const auto& [name, value] : option.inputs.items()) {
    if (name == "model_name" && !view.own_model.empty()) continue;
    const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
    command += " --set " + shell_quoted(name + "=" + text);
  }
  command += view.of_data;
  if (option.padding == Padding::kPacked) command += " --padding packed";
  return command + " --set max_steps=10";
}

Definitions reasons_of(const RecommendationView& view) {
  const auto& [answer, question, prices, own_model, stack, all_gpus, of_data] = view;
  const Option& best = view.best();
  Definitions lines;
  for (const std::string& reason : answer.reasons) {
    lines.emplace_back(lines.empty() ? "why" : "", reason);
  }
  for (const RuledOut& out : answer.ruled_out) {
    lines.emplace_back("ruled out", std::to_string(out.options) + " of " +
                                        std::to_string(answer.considered) + ": " + out.reason);
  }
  if (best.rent) lines.emplace_back("price", offer_text(*best.rent, best.gpus, prices.currency));
  for (const TurningPrice& turn : answer.turns) {
    lines.emplace_back(
        "turns", std::to_string(turn.gpus) + " x " + turn.gpu + " is the cheapest below " +
                     cell_text(short_figure(turn.per_hour)) + " " + prices.currency + "/h a GPU");
  }
  if (const std::vector<std::string> without = gpus_without_price(view); !without.empty()) {
    lines.emplace_back("no price",
                       counted(std::ssize(without), "GPU has", "GPUs have") +
                           " no price on demand or reserved, and are not considered (--gpus "
                           "takes them): " +
                           join(without));
  }
  if (const std::string text = unpriced_text(view); !text.empty())
    lines.emplace_back("no price", text);
  if (!energy_text(best).empty()) lines.emplace_back("energy", energy_basis(view));
  if (best.time_interval.residuals > 0)
    lines.emplace_back("interval", "rests on " + basis_text(best.time_interval));
  if (const std::string family = stands_for(view.answer.job.model.hf_config); !family.empty()) {
    lines.emplace_back("trained by", "another program: " + question.model + " is of the family " +
                                         family + ", which is predicted by its sizes");
    return lines;
  }
  if (is_predicted_alone(view)) {
    lines.emplace_back("trained by",
                       "another program: weights of bitsandbytes are predicted, and not trained "
                       "here (--export trl, axolotl or llamafactory)");
    return lines;
  }
  if (best.gpu.starts_with("AMD-")) {
    lines.emplace_back("trained by", "another program: " + best.gpu +
                                         " is predicted, and this program does not train on it");
    return lines;
  }
  if (stack != StackModel().name) {
    lines.emplace_back("sftbench", "would take " + cell_text(short_figure(answer.own_hours)) +
                                       " h with it, by its own profile");
  }
  lines.emplace_back("measure it", on_one_line(command_of(best, view)));
  return lines;
}

std::string as_markdown(const Definitions& definitions) {
  std::string text, last;
  for (const auto& [term, definition] : definitions) {
    if (!term.empty()) last = term;
    std::string line = with_spaces(definition);
    std::replace(line.begin(), line.end(), '\n', ' ');
    text += "- **" + last + "**: " + line + "\n";
  }
  return text;
}

}  // namespace sftbench
