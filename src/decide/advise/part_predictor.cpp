#include "sftbench/advise/part_predictor.h"

namespace sftbench {

PartPredictor::PartPredictor(const Space& space, const SpaceParts& parts, Oracle& oracle,
                             const ModelCatalog& models)
    : space_(space), parts_(parts), oracle_(oracle), models_(models) {}

const Prediction& PartPredictor::predict(int64_t part, int64_t number, size_t experiment) {
  if (part != part_ || experiment != experiment_) prepare(part, experiment);
  const int64_t entity = parts_.entity(part, number);
  parts_.put_sizes(entity, rules_);
  const std::vector<Violation> violations = validate(rules_, models_);
  if (!violations.empty()) throw RunError(violations.front().code, violations.front().message);
  if (!prediction_ && !refusal_) resolve(number == 0 ? first_ : request_of(entity, experiment));
  if (refusal_) throw RunError(*refusal_);
  parts_.put_sizes(entity, prediction_->job);
  oracle_.complete(*prediction_);
  return *prediction_;
}

void PartPredictor::prepare(int64_t part, size_t experiment) {
  part_ = part;
  experiment_ = experiment;
  prediction_.reset();
  refusal_.reset();
  rules_ = {};
  first_ = request_of(parts_.entity(part, 0), experiment);
  for (const auto& [property, value] : first_.inputs.items()) rules_.set(property, value);
}

MeasurementRequest PartPredictor::request_of(int64_t entity, size_t experiment) const {
  return make_request(space_.entity(entity), space_.experiments[experiment]);
}

// No refusal names a size: where one would, the size makes parts.
void PartPredictor::resolve(const MeasurementRequest& request) {
  try {
    prediction_ = oracle_.resolved(request);
  } catch (const RunError& error) {
    refusal_ = error;
    return;
  }
  TrainingJob& job = prediction_->job;
  job.inputs = job.entity = Json::object();
  job.entity_id.clear();
  job.experiment_id.clear();
  prediction_->notes.clear();
}

}  // namespace sftbench
