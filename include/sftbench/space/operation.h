// What is asked of a space: which of its entities, in which order, how many at a time. Reads ado's
// random_walk operation files; an Operation that no file was read into asks for every entity.
// Source: ado's core/operation/config.py and modules/operators/randomwalk.py.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/space/space.h"

namespace sftbench {

enum class Sampler {
  kGenerator,  // from the space
  kSelector,   // of these, only entities that the store already knows
};

enum class WalkOrder {
  kShared,             // what shares a model and its tokens runs together; else as kSequential
  kSequential,         // the order of the expansion
  kRandom,             // every order is possible; the seed says which one it is
  kSequentialGrouped,  // group after group, each in the order of the expansion
  kRandomGrouped,      // groups in random order, their entities in the order of the expansion
};

enum class EntityFilter {
  kNone,
  kMeasured,    // under every experiment of the space
  kUnmeasured,  // under none of them
  kPartial,     // under some of them
};

enum class SearchMethod {
  kRandom,
  kLatinHypercube,
  kBayesian,  // a Gaussian process and expected improvement
};

// What ado's ray_tune operator is asked for, where advise/search.h has an equal of it.
struct SearchPlan {
  SearchMethod method = SearchMethod::kRandom;
  std::string metric;  // a measured property
  bool maximize = false;
  int64_t samples = 1;  // below 0: all
  int64_t first = 10;   // of a Latin hypercube, before a process is asked
  std::optional<uint64_t> seed;
  std::optional<double> failed_value;  // of what was not valid; nothing: it is modeled as such
  int64_t patience = -1;        // values that are no gain, behind which the search ends; -1: none
  int64_t patience_begins = 0;  // values that are not counted so
  bool counts_failures = true;  // as values that are no gain
  std::vector<Json> given;      // entities that come first, each a mapping of its properties
  std::vector<int64_t> points;  // these as indices, once a space is known
};

struct Operation {
  std::optional<SearchPlan> search;  // then order, sampler and filter have no meaning
  std::string origin;                // the file, as the user gave it
  std::vector<std::string> spaces;   // ado's identifiers, kept as labels
  std::vector<std::string> actuator_configurations;  // likewise
  int actuator_configurations_line = 0;
  Sampler sampler = Sampler::kGenerator;
  WalkOrder order = WalkOrder::kShared;
  std::vector<std::string> grouping;       // properties that are equal within a group
  std::optional<int64_t> number_entities;  // nothing: all
  int64_t batch_size = 1;                  // entities that are measured at the same time
  bool single_measurement = true;          // what the store holds is not measured again
  int64_t max_retries = 0;                 // of a failed measurement, within one sweep
  EntityFilter filter = EntityFilter::kNone;
  std::vector<Diagnostic> warnings;  // things that ado would refuse or ignore
  int parameters_line = 0;           // of the mapping that numberEntities and grouping stand in
};

// InputError with all that is wrong with the file. What it does not say is ado's default: a
// selector that takes one random entity.
Operation parse_operation(std::string_view text, const std::string& origin);
Operation read_operation_file(const std::string& path);

// actuatorConfigurationIdentifiers name what lies in ado's store. `config_path`, the file that was
// given instead, is one of them by the identifier of its resource; a note says when nothing, or
// another one, stands for them.
std::vector<Diagnostic> notes_on_actuator_configurations(const Operation& operation,
                                                         const std::string& config_path);

// What a store holds of one measurement.
enum class Recorded { kNothing, kFailed, kFinal /* valid or invalid */ };

struct WalkStep {
  int64_t entity = 0;     // index in Space
  size_t experiment = 0;  // index in Space::experiments
};

// Where a sweep's measurements come from, one after the other.
class WalkSource {
 public:
  virtual ~WalkSource() = default;
  // Nothing: it has ended.
  virtual std::optional<WalkStep> next() = 0;
  // Entities that may still come: exact unless a filter or a selector leaves some out.
  virtual int64_t entities_left_at_most() const = 0;
  // Whether it chooses by results and wants to see those of the `under_way` first.
  virtual bool waits(int64_t /*under_way*/) const { return false; }
  // Goes on at this part of what is left (0 to 1), and comes to what it skips in the end: workers
  // at different places do not get into each other's way. Without effect where results choose.
  virtual void jump(double /*part*/) {}
};

// The measurements that an operation asks for, one after the other, never held as a list: an order
// is a function from position to entity, so a walk through billions of entities begins at once.
// All experiments of an entity follow each other. Filters and selectors ask `recorded` when their
// turn comes, as ado does; `recorded` is not called otherwise.
class Walk : public WalkSource {
 public:
  using Lookup = std::function<Recorded(int64_t entity, size_t experiment)>;

  // `space` must outlive the walk. InputError when the operation asks for more entities than there
  // are, or groups by a property that is no dimension. Without a lookup the store is empty.
  Walk(const Space& space, const Operation& operation, uint64_t seed, Lookup recorded = {});

  std::optional<WalkStep> next() override;

  // The experiments of the entity under way come first. Without effect where a filter or a selector
  // chooses.
  void jump(double part) override;

  int64_t entities_left_at_most() const override;

  // Behind the end: why a selector or a filter took no entity, or fewer than numberEntities. Empty
  // where it did.
  std::string why_fewer(const std::string& results) const;

 private:
  int64_t entity_at(int64_t position) const;
  bool wanted(int64_t entity) const;
  int64_t positions_left() const;

  const Space& space_;
  Lookup recorded_;
  Sampler sampler_;
  EntityFilter filter_;
  WalkOrder order_;
  uint64_t seed_;
  std::vector<size_t> nesting_;  // dimensions, outermost first
  int64_t members_ = 1;          // entities of one group
  // Positions in the walk's order that are still to come, [from, to): the last one first.
  std::vector<std::pair<int64_t, int64_t>> spans_;
  int64_t sampled_ = 0;  // entities that were yielded
  int64_t limit_;
  bool is_counted_;                    // the limit is asked for
  std::optional<WalkStep> following_;  // the current entity's next experiment
};

}  // namespace sftbench
