// What tokens cost: the price of the devices over their rate. No result holds a price: prices
// change, and a measurement stays. Who shows results works it out.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "sftbench/base/json.h"
#include "sftbench/catalog/prices.h"

namespace sftbench {

// Of one device and one hour. A machine without GPUs is one device.
class DevicePrices {
 public:
  DevicePrices() = default;  // none
  // The same for every device, whatever it is. REQUIRES: above 0.
  static DevicePrices all_at(double usd_per_hour);
  // Of the GPUs that the book lists, under product_name(). Machines without GPUs have no price.
  static DevicePrices of(const PriceBook& book);

  // `gpus`: how many take part.
  std::optional<double> per_hour(std::string_view gpu_model, double gpus) const;

  const std::string& currency() const { return currency_; }
  // "usd_per_million_dataset_tokens": what columns are called.
  std::string column_name() const;

 private:
  std::optional<double> every_device_;
  std::map<std::string, double, std::less<>> by_name_;
  std::string currency_ = "USD";
};

struct TokenCost {
  double per_million = 0;  // dataset tokens, whatever padding there is beside them
  double tokens_per_hour = 0;
  double device_hour = 0;  // the price
  double devices = 1;
};

// Trained on `gpus` devices (0: one machine without) at this rate of all of them together. Nothing
// without a price or a rate.
std::optional<TokenCost> token_cost(const DevicePrices& prices, std::string_view gpu_model,
                                    double gpus, double dataset_tokens_per_second);

Json to_json(const TokenCost& cost, const DevicePrices& prices);

}  // namespace sftbench
