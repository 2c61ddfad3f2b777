#include "sftbench/results/compare.h"

#include <map>
#include <optional>
#include <set>
#include <utility>

#include "results/pairs.h"

namespace sftbench {
namespace {

using Configurations = std::map<std::string, Repeats>;

Configurations configurations(const StoreScan& scan, const std::set<std::string_view>& without) {
  Configurations all;
  for (const StoredResult& result : scan.results)
    add_sample(all[identity(result, without)], result);
  return all;
}

constexpr std::string_view kExperiment = "experiment";

void add_names(const StoreScan& scan, std::set<std::string_view>& names) {
  const Record::Names* latest = nullptr;
  for (const StoredResult& result : scan.results) {
    if (result.inputs.names() == latest) continue;
    latest = result.inputs.names();
    for (size_t i = 0; i < result.inputs.size(); ++i) names.insert(result.inputs.name(i));
  }
}

// Nothing where a folder has several values.
std::optional<std::string> only_value(const StoreScan& scan, std::string_view input) {
  std::optional<std::string> value;
  for (const StoredResult& result : scan.results) {
    std::string text =
        input == kExperiment ? std::string(result.experiment) : input_text(result, input);
    if (value && *value != text) return std::nullopt;
    value = std::move(text);
  }
  return value;
}

// The inputs that have one value here and another one there: what a comparison of the folders is
// about.
std::vector<FolderDifference> differences(const StoreScan& here, const StoreScan& other) {
  std::set<std::string_view> names = {kExperiment};
  add_names(here, names);
  add_names(other, names);
  std::vector<FolderDifference> found;
  for (const std::string_view name : names) {
    const std::optional<std::string> mine = only_value(here, name);
    const std::optional<std::string> its = mine ? only_value(other, name) : std::nullopt;
    if (its && *mine != *its) found.push_back({std::string(name), *mine, *its});
  }
  return found;
}

std::vector<Pair> pairs_of(const Configurations& here, const Configurations& other) {
  std::vector<Pair> pairs;
  for (const auto& [key, repeats] : here) {
    const auto partner = other.find(key);
    if (partner != other.end()) pairs.push_back({repeats, partner->second});
  }
  return pairs;
}

}  // namespace

Comparison compare_results(const StoreScan& here, const StoreScan& other,
                           const CompareOptions& options) {
  Comparison comparison;
  Configurations of_here = configurations(here, {}), of_other = configurations(other, {});
  std::vector<Pair> pairs = pairs_of(of_here, of_other);
  if (pairs.empty() && !of_here.empty() && !of_other.empty()) {
    comparison.apart = differences(here, other);
    std::set<std::string_view> without;
    for (const FolderDifference& difference : comparison.apart) without.insert(difference.input);
    of_here = configurations(here, without);
    of_other = configurations(other, without);
    pairs = pairs_of(of_here, of_other);
  }
  const JudgedPairs judged(pairs, options);
  comparison.both = pairs.size();
  comparison.only_here = of_here.size() - pairs.size();
  comparison.only_other = of_other.size() - pairs.size();
  judged.count(comparison);

  std::vector<Repeats> rows;
  for (const Pair& pair : pairs) rows.push_back(pair.row);
  TableBuilder builder(SortedRows(std::move(rows)));
  if (options.with_ids) {
    builder.column("experiment_id",
                   [](const Repeats& row) { return Scalar::text(row.first().experiment_id); });
    builder.column("identifier",
                   [](const Repeats& row) { return Scalar::text(row.first().entity_id); });
  }
  builder.telling_inputs();
  builder.column("status", [&](const Repeats& row) { return judged.status(builder, row); });
  builder.machine_column();
  judged.columns(builder);
  comparison.table = builder.table();
  return comparison;
}

}  // namespace sftbench
