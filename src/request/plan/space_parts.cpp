#include "sftbench/plan/space_parts.h"

#include <algorithm>
#include <optional>
#include <string>

#include "sftbench/variants/optimizer.h"

namespace sftbench {
namespace {

constexpr const char* kBatch = "batch_size";
constexpr const char* kLength = "model_max_length";
constexpr const char* kAccumulation = "gradient_accumulation_steps";

bool is_refused_with_accumulation(const Json& optimizer) {
  if (!optimizer.is_string()) return false;
  const auto kind = find_named<OptimizerKind>(optimizer.get_ref<const std::string&>());
  return kind && row_of(*kind).update == UpdateTime::kInBackwardOfLayer;
}

// Whether any entity's optimizer is.
bool any_is_refused_with_accumulation(const Space& space) {
  for (const Dimension& dimension : space.dimensions) {
    if (dimension.property().identifier != "optim") continue;
    const std::vector<Json>& values = dimension.listed();
    return std::any_of(values.begin(), values.end(), is_refused_with_accumulation);
  }
  return std::any_of(space.experiments.begin(), space.experiments.end(), [&](const auto& one) {
    const Json inputs = make_request(space.entity(0), one).inputs;
    return is_refused_with_accumulation(inputs.value("optim", Json()));
  });
}

// Some experiments fix what is a dimension for others.
bool is_input_of_all(const Space& space, const std::string& property) {
  return std::all_of(space.experiments.begin(), space.experiments.end(), [&](const auto& one) {
    const PropertySpec* spec = one.experiment->find(property);
    return spec != nullptr && !spec->without_effect;
  });
}

}  // namespace

SpaceParts::SpaceParts(const Space& space, const ResolveOptions& options) {
  const bool accumulates = !any_is_refused_with_accumulation(space);
  const auto size_named = [&](const std::string& property) -> std::optional<Size> {
    if (!is_input_of_all(space, property)) return std::nullopt;
    if (property == kLength) return Size::kLength;
    // Rule 1 has divided the batch among GPUs, and nothing has divided it among processes on CPUs.
    if (property == kBatch && options.cpu_ranks == 1) return Size::kBatch;
    if (property == kAccumulation && accumulates) return Size::kAccumulation;
    return std::nullopt;
  };
  int64_t stride = 1;
  for (size_t i = space.dimensions.size(); i-- > 0;) {
    const Dimension& dimension = space.dimensions[i];
    Digit digit{.stride = stride, .size = dimension.size()};
    stride *= digit.size;
    const std::optional<Size> size = size_named(dimension.property().identifier);
    if (!size) {
      part_count_ *= digit.size;
      parts_.push_back(std::move(digit));
      continue;
    }
    entities_of_each_ *= digit.size;
    digit.meaning = *size;
    for (int64_t value = 0; value < digit.size; ++value) {
      const Json canonical = dimension.property().canonical(dimension.value(value));
      digit.values.push_back(canonical.get<int64_t>());
    }
    sizes_.push_back(std::move(digit));
  }
  std::reverse(parts_.begin(), parts_.end());
  std::reverse(sizes_.begin(), sizes_.end());
}

int64_t SpaceParts::spread(int64_t number, const std::vector<Digit>& digits) {
  int64_t index = 0;
  for (size_t i = digits.size(); i-- > 0;) {
    index += number % digits[i].size * digits[i].stride;
    number /= digits[i].size;
  }
  return index;
}

int64_t SpaceParts::entity(int64_t part, int64_t number) const {
  return spread(part, parts_) + spread(number, sizes_);
}

void SpaceParts::put_sizes(int64_t entity, TrainingJob& job) const {
  for (const Digit& digit : sizes_) {
    const int64_t value = digit.values[static_cast<size_t>(entity / digit.stride % digit.size)];
    switch (digit.meaning) {
      case Size::kBatch:
        job.batches.per_device_batch_size = value / data_ranks(job);
        break;
      case Size::kLength:
        job.data.model_max_length = value;
        break;
      case Size::kAccumulation:
        job.batches.gradient_accumulation_steps = value;
        break;
    }
  }
}

void SpaceParts::put_sizes(int64_t entity, RuleInputs& rules) const {
  for (const Digit& digit : sizes_) {
    if (digit.meaning != Size::kBatch) continue;
    rules.batch_size = digit.values[static_cast<size_t>(entity / digit.stride % digit.size)];
  }
}

}  // namespace sftbench
