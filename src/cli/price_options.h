// --price and --prices: what an hour of a device costs, for whoever shows results.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "sftbench/catalog/prices.h"
#include "sftbench/results/token_cost.h"

namespace sftbench {

struct PriceOptions {
  std::optional<double> price;
  std::string book;  // empty: config/prices.yaml

  bool given() const { return price || !book.empty(); }
};

void add_price_option(CLI::App& command, PriceOptions& options);
void add_price_book_option(CLI::App& command, std::string& book);

// The user's, or config/prices.yaml. InputError.
PriceBook read_price_book(const std::string& path);

// InputError for a book that cannot be read, and for both options at once.
DevicePrices device_prices(const PriceOptions& options);

}  // namespace sftbench
