// Models of published tables, as spaces whose measurements are known: what a search or a prediction
// would have found there. bench/truth/import.sh makes the folder that they are read from.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sftbench/advise/evidence.h"
#include "sftbench/advise/oracle.h"
#include "sftbench/advise/residuals.h"
#include "sftbench/advise/search.h"

namespace sftbench {

struct TableRow {
  Evidence evidence;
  std::optional<double> rate;  // tokens per second and GPU; nothing: it died
  // Of the cost model; 0 where it does not know the row.
  double predicted_rate = 0;
  double step_s = 0;
  double tensor_bytes = 0;
  double room_bytes = 0, comfortable_bytes = 0;  // for tensors: beyond it dies, beyond it is tight
  PredictedCase at;
};

// The rows of a model in one table, as points of the inputs in which they differ.
class TableSpace : public SearchSpace {
 public:
  explicit TableSpace(const std::vector<TableRow>& rows);

  int64_t size() const override { return std::ssize(points_); }
  size_t dimensions() const override { return dimensions_; }
  const std::vector<size_t>& dimension_of_feature() const override { return of_feature_; }
  std::vector<double> features(int64_t row) const override {
    return points_[static_cast<size_t>(row)];
  }
  // The nearest row: a table is no grid.
  int64_t at(const std::vector<double>& place) const override;

 private:
  std::vector<double> features_of(const Json& point,
                                  const std::map<std::string, std::set<Json>>& values);

  std::vector<std::vector<double>> points_;
  std::vector<size_t> of_feature_;
  size_t dimensions_ = 0;
};

struct PublishedTable {
  std::string name;  // table and model
  std::string model;
  bool fitted = false;  // constants of the cost model come from it
  std::vector<TableRow> rows;
  double best = 0;  // rate

  size_t died() const;
};

// Models that have `fewest` configurations or more in a table; one row of each configuration.
std::vector<PublishedTable> published_tables(const std::string& folder, size_t fewest);

// What replays share: the shipped residuals as if nothing of this model had been compared; what the
// measured rows say of predictions.
ResidualTable without_model(const std::string& model);
std::vector<Residual> residuals_of(const PublishedTable& table,
                                   const std::vector<size_t>& measured);

// The inputs of a row, with its experiment.
Json point_of(const Evidence& row);

}  // namespace sftbench
