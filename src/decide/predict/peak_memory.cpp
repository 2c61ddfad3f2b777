#include "predict/peak_memory.h"

#include <algorithm>

namespace sftbench {
namespace {

// Beside the logits: the final norm's input and result, and the gradient of that.
constexpr double kHiddenValuesAtPeak = 3;

double held(const PeakParts& parts) {
  return parts.activations + parts.logits - parts.freed_gradients;
}

}  // namespace

PeakParts peak_parts(const PeakInput& input) {
  const double late =
      input.gradients_come_late ? std::max(0.0, input.gradients - input.gradients_of_loss) : 0;
  const PeakParts loss = {input.waiting + input.layer + kHiddenValuesAtPeak * input.hidden,
                          input.logits, late};
  const PeakParts last_layer = {input.waiting + input.layer + input.backward, 0, late};
  PeakParts peak = held(loss) > held(last_layer) ? loss : last_layer;
  if (!input.gradients_come_late) return peak;
  const PeakParts first_layer = {input.layer + input.backward + input.hidden, 0, 0};
  return held(first_layer) > held(peak) ? first_layer : peak;
}

}  // namespace sftbench
