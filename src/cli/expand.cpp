#include "cli/expand.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "cli/entity_rows.h"
#include "cli/number_checks.h"
#include "cli/record.h"
#include "cli/selection.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/base/text.h"
#include "sftbench/plan/classify_error.h"
#include "sftbench/plan/support.h"
#include "sftbench/space/expansion.h"

namespace sftbench {
namespace {

// More than anybody reads and a disk may hold: a mistake in a range, most of the time.
constexpr int64_t kMostRowsUnasked = 10'000'000;
// Whose values are looked at for an effect: it takes longer than a row.
constexpr int64_t kMostNoted = 1000;

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
  throw InputError({{space.origin,
                     0,
                     "entitySpace",
                     "has " + counted(count, "entity", "entities") + " under " +
                         counted(experiments, "experiment"),
                     "at most " + std::to_string(kMostRowsUnasked) +
                         " rows, or --limit N for the first N entities",
                     {}}});
}

void print_count(const Space& space, OutputFormat format) {
  const int64_t entities = space.entity_count();
  const auto experiments = static_cast<int64_t>(space.experiments.size());
  print_table({{"entities", "experiments", "measurements"},
               {{entities, experiments, entities * experiments}}},
              format);
}

// What `sweep` and `run` would say of an entity, as far as it does not depend on this machine's
// files and devices.
class Verdicts {
 public:
  Verdicts(const LoadedSpace& loaded, const ResolveOptions& options)
      : loaded_(loaded),
        options_(options),
        support_(loaded.space, loaded.settings, options, Catalog::shipped()) {}

  std::vector<Violation> of(const Expansion& expansion, size_t experiment) {
    std::vector<Violation> violations = expansion.violations(experiment);
    if (!violations.empty()) {
      ++invalid_;
      return violations;
    }
    const Support& support = support_.of(expansion.index(), experiment);
    say(support.notes);
    if (support.refusals.empty()) {
      if (valid_++ < kMostNoted) say(without_effect(expansion, experiment));
    } else {
      ++(makes_invalid(support.code) ? invalid_ : unsupported_);
      violations.push_back({support.code, join(support.refusals, "; ")});
    }
    return violations;
  }

  std::string counts() const {
    std::string text = std::to_string(valid_) + " valid, " + std::to_string(invalid_) + " invalid";
    if (unsupported_ == 0) return text;
    return text + ", " + std::to_string(unsupported_) + " unsupported: this version cannot train " +
           (unsupported_ == 1 ? "it" : "them");
  }

 private:
  std::vector<std::string> without_effect(const Expansion& expansion, size_t experiment) const {
    const Space& space = loaded_.space;
    return values_without_effect(
        make_request(space.entity(expansion.index()), space.experiments[experiment]),
        loaded_.settings, options_, Catalog::shipped());
  }

  void say(const std::vector<std::string>& notes) {
    for (const std::string& note : notes) {
      if (notes_.insert(note).second) spdlog::info("{}", note);
    }
  }

  const LoadedSpace& loaded_;
  const ResolveOptions& options_;
  SupportOfSpace support_;
  std::set<std::string> notes_;  // that were said
  int64_t valid_ = 0, invalid_ = 0, unsupported_ = 0;
};

void print_rows(const LoadedSpace& loaded, const ResolveOptions& options, const Part& part,
                OutputFormat format) {
  const Space& space = loaded.space;
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
  Verdicts verdicts(loaded, options);
  for (int64_t i = 0; i < part.count; ++i) {
    for (size_t k = 0; k < experiment_ids.size(); ++k) {
      rows->add(
          {expansion.index(), expansion.entity_id(), experiment_ids[k], verdicts.of(expansion, k)});
    }
    if (i + 1 < part.count) expansion.advance();
  }
  rows->finish();
  spdlog::info("{}", verdicts.counts());
}

void expand(const ExpandArguments& arguments) {
  const OutputFormat format = output_format(arguments.format);
  const LoadedSpace loaded = load_space(arguments.selection);
  for (const Diagnostic& warning : loaded.warnings) spdlog::warn("{}", to_string(warning));
  if (arguments.count) {
    print_count(loaded.space, format);
  } else {
    const ResolveOptions options = resolve_options(loaded, arguments.selection);
    print_rows(loaded, options, chosen_part(loaded.space, arguments), format);
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
      ->transform(whole_number(1));
  command->add_flag("--count", arguments->count, "only how many there are");
  command->footer(R"(
Verdicts: valid; invalid, by the rules of the documents; unsupported, by what
this version cannot train. Whether this machine has the weights, the dataset and
the GPUs is what sweep --dry-run says. Values that have no effect are noted, of
the first 1000 valid entities.

Examples:
  sftbench expand space.yaml
  sftbench expand space.yaml --count
  sftbench expand space.yaml --limit 1000 --format csv)");
  command->callback([arguments, &exit_code] {
    expand(*arguments);
    exit_code = 0;
  });
}

}  // namespace sftbench
