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
  std::string stack;      // --stack
  bool all_gpus = true;   // that have a price: --gpus was not given
  std::string of_data;    // " --data FILE ...", as `run` takes the user's own

  const Option& best() const { return answer.cheapest ? *answer.cheapest : *answer.fastest; }
  double tokens() const { return question.workload.tokens(); }
  // As the best one trains on it.
  const Workload& work() const {
    const bool packed = question.packed && best().padding == question.packed->padding;
    return packed ? *question.packed : question.workload;
  }
};

// What the answer takes for granted: program, precision, method, optimizer, rows. With the options
// that change it.
Definitions assumptions_of(const RecommendationView& view);

Table table_of(const RecommendationView& view);
Json as_json(const RecommendationView& view);

// Why, what was ruled out, what prices, energy and intervals rest on, and what to measure.
Definitions reasons_of(const RecommendationView& view);

// The command that measures an option in ten steps.
std::string command_of(const Option& option, const RecommendationView& view);

// "- **term**: text" lines.
std::string as_markdown(const Definitions& definitions);

}  // namespace sftbench
