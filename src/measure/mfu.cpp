#include "sftbench/measure/mfu.h"

#include <algorithm>

#include "sftbench/base/error.h"

namespace sftbench {

double model_flops_per_token(const TrainBegin& model, const MeasuredSpan& span) {
  check(span.tokens.padded > 0, "the measured steps had tokens");
  const int64_t multiplied =
      model.parameters_total - model.parameters_embedding - model.parameters_idle;
  const int64_t trained = std::min(multiplied, model.parameters_trainable);
  const double attention = span.attention_flops / static_cast<double>(span.tokens.padded);
  return 4.0 * static_cast<double>(multiplied) + 2.0 * static_cast<double>(trained) + 3 * attention;
}

Json model_flops_utilization(const TrainBegin& model, const MeasuredSpan& span, int devices,
                             const DevicePeak& peak) {
  const double per_token = model_flops_per_token(model, span);
  const double tokens_per_device_second = span.per_second([](const RankSpan& rank) {
    return rank.tokens.padded;
  }) / std::max(1, devices);
  const double achieved = per_token * tokens_per_device_second;
  const double llmforge =
      6.0 * static_cast<double>(model.parameters_total) * tokens_per_device_second;
  const auto over_peak = [&peak](double flops_per_s) {
    return peak.flops_per_s ? Json(flops_per_s / *peak.flops_per_s) : Json();
  };
  return {{"value", over_peak(achieved)},
          {"model_flops_per_token", per_token},
          {"peak_flops_per_device", peak.flops_per_s ? Json(*peak.flops_per_s) : Json()},
          {"achieved_flops_per_device", achieved},
          {"llmforge_value", over_peak(llmforge)},
          {"reason", peak.flops_per_s ? Json() : Json(peak.reason)}};
}

}  // namespace sftbench
