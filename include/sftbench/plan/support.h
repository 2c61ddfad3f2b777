// What of an entity this version can do, known without any file of the model, dataset or device:
// what `expand`, `predict`, `sweep` and `run` say alike. What this machine lacks beside that
// (weights, a dataset, GPUs) is found where a measurement is planned.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sftbench/base/error.h"
#include "sftbench/catalog/catalog.h"
#include "sftbench/plan/actuator.h"
#include "sftbench/plan/resolve.h"
#include "sftbench/space/space.h"

namespace sftbench {

struct Support {
  std::vector<std::string> refusals;  // what it cannot do, each with what works; one UNSUPPORTED
  std::vector<std::string> notes;     // what it does otherwise than one might think
  ReasonCode code = ReasonCode::kUnsupported;  // of the refusals
};

// REQUIRES: validate(inputs) found no violation.
Support support_of(const Experiment& experiment, const Json& inputs,
                   const ActuatorSettings& settings, const ResolveOptions& options,
                   const Catalog& catalog);

// Notes "<property> <value> has no effect ..." of values that change nothing in an entity, as `run`
// says them. RunError(kData): a data_mixture that is none.
std::vector<std::string> values_without_effect(const MeasurementRequest& request,
                                               const ActuatorSettings& settings,
                                               const ResolveOptions& options,
                                               const Catalog& catalog);

// Whether models of a family are trained; true of "", of which nothing is known.
bool trains_family(const std::string& family);

// The same for one entity of a space after another, and what the model's config.json says against
// it where it is at hand: adapters that no linear takes, a family that is not trained. Entities
// differ in much that support does not depend on: only what differs in the rest is looked at.
class SupportOfSpace {
 public:
  // All of them outlive it.
  SupportOfSpace(const Space& space, const ActuatorSettings& settings,
                 const ResolveOptions& options, const Catalog& catalog);
  ~SupportOfSpace();

  // Valid until the next call. REQUIRES: the entity breaks no rule.
  const Support& of(int64_t entity, size_t experiment);

 private:
  // A dimension that support depends on: a digit of the entity's index.
  struct Digit {
    int64_t stride;
    int64_t size;
  };
  struct Known;

  int64_t part_of(int64_t entity) const;  // a number for what support depends on
  Support support_of_request(const MeasurementRequest& request, const Experiment& experiment,
                             Known& known) const;

  const Space& space_;
  const ActuatorSettings& settings_;
  const ResolveOptions& options_;
  const Catalog& catalog_;
  std::vector<Digit> digits_;
  int64_t block_size_ = 1;
  std::vector<Known> known_;  // per experiment
};

}  // namespace sftbench
