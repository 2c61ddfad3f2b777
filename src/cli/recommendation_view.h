// What a recommendation says, for people and for programs.
#pragma once

#include <string>

#include "cli/definition_list.h"
#include "sftbench/advise/recommend.h"
#include "sftbench/base/json.h"
#include "sftbench/results/table.h"

namespace sftbench {

struct RecommendationView {
  const Recommendation& answer;
  const Question& question;
  const PriceBook& prices;
  std::string own_model;  // as --model names it, where it is none of the catalog

  const Option& best() const { return answer.cheapest ? *answer.cheapest : *answer.fastest; }
  double tokens() const { return question.workload.tokens(); }
};

Table table_of(const RecommendationView& view);
Json as_json(const RecommendationView& view);

// Why, what was ruled out, what prices, energy and intervals rest on, and what to measure.
Definitions reasons_of(const RecommendationView& view);

// The command that measures an option in ten steps.
std::string command_of(const Option& option, const RecommendationView& view);
// "with 38 % another option is chosen after it, which saves 1.2 USD on average"; empty where no
// measurement would change the choice.
std::string worth_of_next(const RecommendationView& view);

// "5.47 h", "3.44 to 8.72" (null without an interval), "10.2 USD", "at most 16 kWh".
std::string hours_text(const Option& option);
Json hours_interval_text(const Option& option);
std::string cost_text(const Option& option, const RecommendationView& view);
std::string energy_text(const Option& option);

// "- **term**: text" lines.
std::string as_markdown(const Definitions& definitions);

}  // namespace sftbench
