#include "sftbench/space/expansion.h"

#include <algorithm>

#include "sftbench/base/error.h"

namespace sftbench {
namespace {

// What the rules read of the experiment itself: its defaults, then its parameterization.
RuleInputs inputs_of(const ExperimentReference& reference) {
  RuleInputs inputs;
  for (const PropertySpec& spec : reference.experiment->properties) {
    if (!spec.required) inputs.set(spec.identifier, spec.default_value);
  }
  for (const auto& [property, value] : reference.parameterization) {
    inputs.set(property, reference.experiment->find(property)->canonical(value));
  }
  return inputs;
}

}  // namespace

Expansion::Expansion(const Space& space, const ModelCatalog& models, int64_t first)
    : models_(models), ids_(space.ids), order_(space.order_in_ids(space.ids)), index_(first) {
  check(first >= 0 && first < space.entity_count(), "the index is below the number of entities");
  for (const ExperimentReference& reference : space.experiments)
    inputs_.push_back(inputs_of(reference));
  axes_.resize(space.dimensions.size());
  for (size_t part = 0; part < order_.size(); ++part) axes_[order_[part]].part = part;
  for (size_t i = 0; i < axes_.size(); ++i) {
    const Dimension& dimension = space.dimensions[i];
    Axis& axis = axes_[i];
    const PropertySpec& property = dimension.property();
    axis.dimension = &dimension;
    axis.prefix = (axis.part == 0 ? "" : "-") + property.identifier + ".";
    axis.ruled = RuleInputs().set(property.identifier, nullptr);
    for (const Json& value : dimension.listed()) {
      axis.texts.push_back(axis.prefix + python_str(value));
      if (axis.ruled) axis.values.push_back(property.canonical(value));
    }
  }
  for (size_t i = axes_.size(); i-- > 0;) {
    axes_[i].digit = first % axes_[i].dimension->size();
    first /= axes_[i].dimension->size();
  }
  take_values_from(0);
}

void Expansion::advance() {
  ++index_;
  size_t turning = axes_.size();
  while (turning > 0) {
    Axis& axis = axes_[--turning];
    if (++axis.digit < axis.dimension->size()) break;
    axis.digit = 0;
    if (turning == 0) index_ = 0;
  }
  take_values_from(turning);
}

// The axes from this one on have turned.
void Expansion::take_values_from(size_t first_axis) {
  size_t first_part = axes_.size();
  for (size_t i = first_axis; i < axes_.size(); ++i) {
    const Axis& axis = axes_[i];
    first_part = std::min(first_part, axis.part);
    if (!axis.ruled) continue;
    set_inputs(axis, axis.values.empty()
                         ? axis.dimension->property().canonical(axis.dimension->value(axis.digit))
                         : axis.values[static_cast<size_t>(axis.digit)]);
  }
  write_from(first_part);
}

void Expansion::write_from(size_t first_part) {
  if (first_part < order_.size()) id_.resize(axes_[order_[first_part]].id_begin);
  for (size_t part = first_part; part < order_.size(); ++part) {
    Axis& axis = axes_[order_[part]];
    axis.id_begin = id_.size();
    if (!axis.texts.empty()) {
      id_ += axis.texts[static_cast<size_t>(axis.digit)];
    } else {
      id_ += axis.prefix;
      id_ += python_str(axis.dimension->value(axis.digit));
    }
  }
  shortened_.clear();
  if (ids_ == AdoIds::k18 && id_.size() > kLongestEntityId) shortened_ = shortened_id(id_);
}

void Expansion::set_inputs(const Axis& axis, const Json& canonical) {
  for (RuleInputs& inputs : inputs_) inputs.set(axis.dimension->property().identifier, canonical);
}

}  // namespace sftbench
