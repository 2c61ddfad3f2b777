#include "sftbench/results/token_cost.h"
#include "sftbench/base/text.h"

#include <algorithm>
#include <cctype>

namespace sftbench {
namespace {

constexpr double kSecondsPerHour = 3600, kMillion = 1e6;

}  // namespace

DevicePrices DevicePrices::all_at(double usd_per_hour) {
  DevicePrices prices;
  prices.every_device_ = usd_per_hour;
  return prices;
}

DevicePrices DevicePrices::of(const PriceBook& book) {
  DevicePrices prices;
  prices.currency_ = book.currency;
  for (const auto& [name, price] : book.prices) prices.by_name_[name] = price.per_hour;
  return prices;
}

std::optional<double> DevicePrices::per_hour(std::string_view gpu_model, double gpus) const {
  if (every_device_ || gpus < 1) return every_device_;
  const auto found = by_name_.find(gpu_model);
  return found == by_name_.end() ? std::nullopt : std::optional(found->second);
}

std::string DevicePrices::column_name() const {
  return lower_case(currency_) + "_per_million_dataset_tokens";
}

std::optional<TokenCost> token_cost(const DevicePrices& prices, std::string_view gpu_model,
                                    double gpus, double dataset_tokens_per_second) {
  const std::optional<double> price = prices.per_hour(gpu_model, gpus);
  if (!price || !(dataset_tokens_per_second > 0)) return {};
  TokenCost cost;
  cost.device_hour = *price;
  cost.devices = std::max(1.0, gpus);
  cost.tokens_per_hour = dataset_tokens_per_second * kSecondsPerHour;
  cost.per_million = cost.device_hour * cost.devices / cost.tokens_per_hour * kMillion;
  return cost;
}

Json to_json(const TokenCost& cost, const DevicePrices& prices) {
  return {{"currency", prices.currency()},
          {"per_device_hour", cost.device_hour},
          {"devices", cost.devices},
          {"dataset_tokens_per_hour", cost.tokens_per_hour},
          {"per_million_dataset_tokens", cost.per_million}};
}

}  // namespace sftbench
