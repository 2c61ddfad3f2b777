// Columns of a report that follow from a rate and a price.
#pragma once

#include "results/table_builder.h"
#include "sftbench/results/token_cost.h"

namespace sftbench {

// "dataset_tokens_per_hour"
void hour_column(TableBuilder& builder);

// "usd_per_million_dataset_tokens", of the typical rate of a row's samples.
void cost_column(TableBuilder& builder, const DevicePrices& prices);

// Of one result. Nothing when it has no rate, or its devices no price.
std::optional<TokenCost> token_cost(const DevicePrices& prices, const StoredResult& result);

}  // namespace sftbench
