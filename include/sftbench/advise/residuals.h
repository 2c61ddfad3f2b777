// How far predictions were from measurements: what intervals rest on. A residual is
// ln(measured / predicted) of a step's time or of the allocator's peak. The shipped ones
// (config/residuals.json) are those of bench/truth, and bench/truth/residuals.sh makes them.
//
// Intervals are conformal (Lei et al. 2018, arXiv 1604.04173): nine of ten measurements were within
// a quantile of |residual| among the nearest group. Groups, the first that is large enough:
//
//   of time: same GPU, stack and method; same GPU and stack; else rows that were predicted with the
//            constants of another GPU, which stand for what nothing was compared with
//   of memory, which does not depend on how fast a GPU is: same stack and method; same stack; all
//
// An interval grows with the distance from the rows of its group, a normal deviation for each thing
// that is far, and says what is. Of time: shorter or longer rows, several nodes, few bits, a GPU
// and a stack neither of which was compared. Of memory: doublings of length and ranks, and what
// none of the rows has. How much each is worth was chosen on the sources of
// bench/truth/published.csv that are not held out.
//
// Time of models that constants were fitted on does not count. A group has several models, and each
// model weighs the same, because rows of one model err alike.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sftbench/base/json.h"

namespace sftbench {

inline constexpr const char* kResidualSchema = "sftbench.residuals/1";

// Of measurements, the share that an interval holds.
inline constexpr double kIntervalLevel = 0.9;

enum class Figure { kTime, kMemory };
const char* name_of(Figure figure);

// What of a configuration tells near evidence from far.
struct PredictedCase {
  std::string machine;  // the first GPU of the entry of config/machines.yaml, or "CPU"
  std::string stack;
  std::string method;
  std::string model;
  int64_t ranks = 1;
  int64_t batch = 1;  // entries of a micro-batch
  int64_t length = 1;
  bool checkpointing = true;
  bool eager_attention = false;  // which holds all scores
  // Of ln(seconds) from run to run, on processors that were probed.
  std::optional<double> run_variance = std::nullopt;
  int64_t nodes = 1;
  bool float8 = false;           // products of weights
  bool of_other_family = false;  // that is not trained, and predicted by its sizes
};

struct Residual {
  PredictedCase at;
  Figure figure = Figure::kTime;
  bool fitted = false;   // constants come from this model
  bool assumed = false;  // predicted with another GPU's constants
  double log_ratio = 0;
};

// Factors of the prediction. The best guess is `center`: 1, unless own measurements say otherwise.
struct Interval {
  double low = 1, center = 1, high = 1;
  int64_t residuals = 0;  // it rests on
  bool assumed = false;
  bool far = false;   // wider than what it rests on
  bool own = false;   // of the user's own measurements
  std::string basis;  // of which measurements, in words
};

// Variances of residuals as a Gaussian process sees them (advise/sharpen.h), and by how much its
// intervals have to be wider to hold.
struct Spread {
  double offset = 0;    // of all rows on one machine
  double model = 0;     // of the rows of a model
  double near = 0;      // of rows that differ little
  double distance = 1;  // how many doublings are little
  double noise = 0;     // of one row
  double widening = 1;  // nine of ten rows were within so many deviations
};

class ResidualTable {
 public:
  static const ResidualTable& shipped();  // InputError when the file cannot be read

  ResidualTable() = default;
  ResidualTable(std::vector<Residual> rows, std::map<Figure, Spread> spreads);
  static ResidualTable from_json(const Json& json, const std::string& origin);  // InputError

  const std::vector<Residual>& rows() const { return rows_; }
  const Spread& spread(Figure figure) const;

  // `without_model`: as if there were no rows of it.
  Interval interval(Figure figure, const PredictedCase& at,
                    const std::string& without_model = {}) const;

  // The probability that measured / predicted is above `factor`.
  double chance_above(Figure figure, const PredictedCase& at, double factor) const;

 private:
  struct Group {
    std::vector<std::pair<double, double>> signed_weights;       // log_ratio and weight, sorted
    double half_width = 0;                                       // of logarithms
    double widened = 1;                                          // over that of the rows
    bool several_nodes = false, machine = false, stack = false;  // that were compared
    bool other_method = false;                                   // most rows are of another
    Interval interval;
    // What its rows have of lengths and ranks, of methods, and with and without checkpointing.
    std::pair<int64_t, int64_t> lengths, ranks;
    std::set<std::string> methods;
    std::set<bool> checkpointing;
  };
  // Of logarithms, squared; and what is far, in words.
  struct Distance {
    double squared = 0;
    std::vector<std::string> far;
    void add(double half_width, const std::string& what);
  };
  using Key = std::tuple<Figure, std::string, std::string, std::string, std::string>;

  const Group& group(Figure figure, const PredictedCase& at, const std::string& without) const;
  void put_reach(const std::vector<const Residual*>& rows, const PredictedCase& at,
                 Group& group) const;
  Group make_group(Figure figure, const PredictedCase& at, const std::string& without) const;
  static Distance distance(Figure figure, const PredictedCase& at, const Group& group);

  std::vector<Residual> rows_;
  std::map<Figure, Spread> spreads_;
  // Threads predict different entities. A copy makes its own.
  struct GroupCache {
    GroupCache() = default;
    GroupCache(const GroupCache& /*other*/) {}
    GroupCache& operator=(const GroupCache& /*other*/) = delete;

    std::mutex mutex;
    std::map<Key, Group> groups;
  };
  mutable GroupCache cache_;
};

}  // namespace sftbench
