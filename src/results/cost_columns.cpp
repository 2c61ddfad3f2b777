#include "results/cost_columns.h"

namespace sftbench {
namespace {

constexpr std::string_view kRate = "dataset_tokens_per_second";

std::optional<TokenCost> cost_at(const DevicePrices& prices, const Scalar& gpu_model,
                                 const Scalar& gpus, double rate) {
  return token_cost(prices, gpu_model.is_text() ? gpu_model.as_text() : std::string_view(),
                    gpus.as_number().value_or(0), rate);
}

}  // namespace

void hour_column(TableBuilder& builder) {
  Samples rates(kRate, &StoredResult::measured);
  builder.column("dataset_tokens_per_hour", [&](const Repeats& row) {
    const std::vector<Scalar>& values = rates(row);
    if (values.empty()) return Scalar();
    return Scalar::number(typical_value(values).as_number().value_or(0) * 3600);
  });
}

void cost_column(TableBuilder& builder, const DevicePrices& prices) {
  Samples rates(kRate, &StoredResult::measured);
  Picker gpu_model("gpu_model"), gpus("number_gpus");
  builder.column(prices.column_name(), [&](const Repeats& row) {
    const std::vector<Scalar>& values = rates(row);
    if (values.empty()) return Scalar();
    const Record& inputs = row.first().inputs;
    const auto cost = cost_at(prices, gpu_model(inputs), gpus(inputs),
                              typical_value(values).as_number().value_or(0));
    return cost ? Scalar::number(cost->per_million) : Scalar();
  });
}

std::optional<TokenCost> token_cost(const DevicePrices& prices, const StoredResult& result) {
  return cost_at(prices, result.inputs["gpu_model"], result.inputs["number_gpus"],
                 result.measured[kRate].as_number().value_or(0));
}

}  // namespace sftbench
