// A discovery space: the dimensions of an entity space and the experiments to measure its entities
// with. Reads ado's discovery space files unchanged, plain or wrapped as a resource; --set gives or
// replaces dimensions from the command line. Entities are computed from their index (a mixed-radix
// number whose last dimension turns fastest, ado's order) and never stored, so a space of millions
// costs nothing to hold.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/catalog/catalog.h"
#include "sftbench/space/entity.h"

namespace sftbench {

// The values of one dimension: listed, or counted from a range.
class Dimension {
 public:
  Dimension(const PropertySpec* property, std::vector<Json> values);
  // `count` values: first + i * step.
  enum class Steps {
    kIntegers,
    kIntegersAsFloats,  // 1.0, 2.0: what ado up to 1.7 makes of integers
    kFloats,            // rounded to 10 decimals as ado rounds
  };
  Dimension(const PropertySpec* property, double first, double step, int64_t count, Steps steps);

  const PropertySpec& property() const { return *property_; }
  int64_t size() const { return count_; }
  bool counts_integers() const { return values_.empty() && steps_ != Steps::kFloats; }
  Json value(int64_t index) const;
  // Of the value that prints so, in either generation's id.
  std::optional<int64_t> index_of(std::string_view text) const;
  const std::vector<Json>& listed() const { return values_; }  // empty: counted from a range

 private:
  const PropertySpec* property_;
  std::vector<Json> values_;
  double first_ = 0;
  double step_ = 0;
  int64_t count_ = 0;
  Steps steps_ = Steps::kIntegers;
};

struct Space {
  std::string origin;  // the file, as the user gave it; empty: only --set
  std::string label;   // sampleStoreIdentifier, kept as a label
  std::vector<Dimension> dimensions;
  std::vector<ExperimentReference> experiments;
  AdoIds ids = AdoIds::k18;  // the generation of the ids of its entities
  std::string weights;       // top-level `weights`: auto, random; empty: not said
  std::string padding;  // top-level `padding`: longest, max_length, none, packed; empty: not said
  std::optional<YamlNode> actuator_configuration;  // top-level `actuatorConfiguration`
  std::vector<Diagnostic> warnings;                // things that ado would refuse or ignore

  int64_t entity_count() const;
  Entity entity(int64_t index) const;  // REQUIRES: 0 <= index < entity_count()
  // The dimensions in the order in which the ids of that generation name them.
  std::vector<size_t> order_in_ids(AdoIds generation) const;

  // The entity with this id, of either generation; nothing when there is none. A shortened id is
  // looked for among the first million entities.
  std::optional<int64_t> find(const std::string& entity_id) const;
};

// A value that another option than --set gives, or a key of a file.
struct GivenValue {
  std::string source;  // "--learning-rate"; what errors name
  std::string property;
  YamlNode value;
};

struct SpaceOptions {
  std::vector<std::string>
      assignments;  // --set: "property=value"; replaces a dimension or a parameterization
  std::vector<GivenValue> given;  // the same from elsewhere
  std::string experiment;         // --experiment: keeps this one (identifier or full id)
  std::string experiment_option = "--experiment";  // that gives it, for messages
  std::vector<std::string> extra_models;           // names that the actuator's model_map adds
  AdoIds ids = AdoIds::k18;  // --ado-ids: the generation of ado's ids to write
};

// InputError with all that is wrong with the file and the options.
Space parse_space(std::string_view text, const std::string& origin, const Catalog& catalog,
                  const SpaceOptions& options = {});
Space read_space_file(const std::string& path, const Catalog& catalog,
                      const SpaceOptions& options = {});

// A space of one experiment and --set alone. InputError when a required property is missing.
Space space_from_assignments(const Catalog& catalog, const SpaceOptions& options);

}  // namespace sftbench
