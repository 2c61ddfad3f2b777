#include "sftbench/results/compare.h"

#include <map>
#include <utility>

#include "results/pairs.h"

namespace sftbench {
namespace {

using Configurations = std::map<std::string, Repeats>;

Configurations configurations(const StoreScan& scan) {
  Configurations all;
  for (const StoredResult& result : scan.results) add_sample(all[identity(result)], result);
  return all;
}

}  // namespace

Comparison compare_results(const StoreScan& here, const StoreScan& other,
                           const CompareOptions& options) {
  const Configurations of_here = configurations(here), of_other = configurations(other);
  std::vector<Pair> pairs;
  for (const auto& [key, repeats] : of_here) {
    const auto partner = of_other.find(key);
    if (partner != of_other.end()) pairs.push_back({repeats, partner->second});
  }
  const JudgedPairs judged(pairs, options);
  Comparison comparison;
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
  judged.columns(builder);
  comparison.table = builder.table();
  return comparison;
}

}  // namespace sftbench
