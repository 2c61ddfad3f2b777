// Predictions of the entities of a space, a part of it (plan/space_parts.h) after the other. Each
// part is resolved once.
#pragma once

#include <cstdint>
#include <optional>

#include "sftbench/advise/oracle.h"
#include "sftbench/plan/space_parts.h"
#include "sftbench/space/space.h"

namespace sftbench {

class PartPredictor {
 public:
  // All of them outlive it. An oracle is of one thread, and so is this.
  PartPredictor(const Space& space, const SpaceParts& parts, Oracle& oracle,
                const ModelCatalog& models);

  // As Oracle::predict() of that entity's request, valid until the next call. The job has neither
  // inputs nor ids, and no notes come with it. Fast for entities of one part and experiment that
  // follow each other.
  const Prediction& predict(int64_t part, int64_t number, size_t experiment);

 private:
  void prepare(int64_t part, size_t experiment);
  void resolve(const MeasurementRequest& request);
  MeasurementRequest request_of(int64_t entity, size_t experiment) const;

  const Space& space_;
  const SpaceParts& parts_;
  Oracle& oracle_;
  const ModelCatalog& models_;
  int64_t part_ = -1;
  size_t experiment_ = 0;
  MeasurementRequest first_;  // of the part's first entity
  RuleInputs rules_;
  // Of the part's last entity. Nothing: each one so far broke a rule, or all are refused.
  std::optional<Prediction> prediction_;
  std::optional<RunError> refusal_;
};

}  // namespace sftbench
