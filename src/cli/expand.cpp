#include "sftbench/cli/expand.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "cli/entity_rows.h"
#include "cli/number_checks.h"
#include "sftbench/cli/selection.h"
#include "sftbench/space/expansion.h"

namespace sftbench {
namespace {

// More than anybody reads and a disk may hold: a mistake in a range, most of the time.
constexpr int64_t kMostRowsUnasked = 10'000'000;

struct ExpandArguments {
  Selection selection;
  std::string format = "table";
  std::optional<int64_t> limit;  // entities
  bool count = false;
};

struct Part {
  int64_t first = 0;
  int64_t count = 0;
};

// The entities that are asked for. InputError, with the count, for more than kMostRowsUnasked.
Part chosen_part(const Space& space, const ExpandArguments& arguments) {
  const int64_t count = space.entity_count();
  const auto experiments = static_cast<int64_t>(space.experiments.size());
  if (const std::optional<int64_t> chosen = chosen_entity(space, arguments.selection))
    return {*chosen, 1};
  if (arguments.limit) return {0, std::min(count, *arguments.limit)};
  if (count <= kMostRowsUnasked / experiments) return {0, count};
  throw InputError(
      {{space.origin,
        0,
        "entitySpace",
        "has " + std::to_string(count) + " entities under " + std::to_string(experiments) +
            " experiment" + (experiments == 1 ? "" : "s"),
        "at most " + std::to_string(kMostRowsUnasked) +
            " rows, or --limit N for the first N entities",
        {}}});
}

void print_count(const Space& space, OutputFormat format) {
  const int64_t entities = space.entity_count();
  const auto experiments = static_cast<int64_t>(space.experiments.size());
  std::cout << render({{"entities", "experiments", "measurements"},
                       {{entities, experiments, entities * experiments}}},
                      format);
}

void print_rows(const Space& space, const Part& part, OutputFormat format) {
  std::vector<std::string> experiment_ids;
  for (const ExperimentReference& reference : space.experiments)
    experiment_ids.push_back(experiment_id(reference));
  const auto rows = entity_rows(format, experiment_ids.size() > 1);
  if (part.count == 0) {
    rows->finish();
    spdlog::info("0 valid, 0 invalid");
    return;
  }
  Expansion expansion(space, Catalog::shipped().models, part.first);
  int64_t valid = 0;
  for (int64_t i = 0; i < part.count; ++i) {
    for (size_t k = 0; k < experiment_ids.size(); ++k) {
      const EntityRow row = {expansion.index(), expansion.entity_id(), experiment_ids[k],
                             expansion.violations(k)};
      rows->add(row);
      valid += row.violations.empty() ? 1 : 0;
    }
    if (i + 1 < part.count) expansion.advance();
  }
  rows->finish();
  const int64_t all = part.count * static_cast<int64_t>(experiment_ids.size());
  spdlog::info("{} valid, {} invalid", valid, all - valid);
}

void expand(const ExpandArguments& arguments) {
  const OutputFormat format = output_format(arguments.format);
  const LoadedSpace loaded = load_space(arguments.selection);
  for (const Diagnostic& warning : loaded.warnings) spdlog::warn("{}", to_string(warning));
  if (arguments.count) {
    print_count(loaded.space, format);
  } else {
    print_rows(loaded.space, chosen_part(loaded.space, arguments), format);
  }
}

}  // namespace

void add_expand_command(CLI::App& app, int& exit_code) {
  CLI::App* command =
      app.add_subcommand("expand", "list the entities of a space with verdict and reason");
  const auto arguments = std::make_shared<ExpandArguments>();
  add_selection_options(*command, arguments->selection);
  command->add_option("--format", arguments->format, "table, json, jsonl, csv or md")
      ->capture_default_str();
  command->add_option("--limit", arguments->limit, "only the first N entities")
      ->type_name("N")
      ->check(above_zero());
  command->add_flag("--count", arguments->count, "only how many there are");
  command->callback([arguments, &exit_code] {
    expand(*arguments);
    exit_code = 0;
  });
}

}  // namespace sftbench
