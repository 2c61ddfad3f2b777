#include "cli/price_options.h"

#include "cli/number_checks.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {
namespace {

constexpr double kMostPerHour = 1e6;

[[noreturn]] void refuse_price(std::string message, std::string expected) {
  throw InputError({{{}, 0, "--price", std::move(message), std::move(expected), {}}});
}

}  // namespace

void add_price_option(CLI::App& command, PriceOptions& options) {
  command
      .add_option("--price", options.price,
                  "USD that an hour of each GPU costs, or of a machine without GPUs: results are "
                  "shown with the cost of a million dataset tokens (default: config/prices.yaml)")
      ->check(above_zero())
      ->option_text("USD");
}

void add_price_book_option(CLI::App& command, std::string& book) {
  command.add_option("--prices", book, "price book (default: config/prices.yaml)")
      ->type_name("FILE");
}

PriceBook read_price_book(const std::string& path) {
  const std::string shipped = (resource_directory() / "config" / "prices.yaml").string();
  return PriceBook::read(path.empty() ? shipped : path, Catalog::shipped().gpus);
}

DevicePrices device_prices(const PriceOptions& options) {
  if (!options.price) return DevicePrices::of(read_price_book(options.book));
  if (!options.book.empty()) refuse_price("and --prices exclude each other", "one of them");
  if (*options.price > kMostPerHour) {
    refuse_price("is no price of one device and hour", "a number up to 1000000");
  }
  return DevicePrices::all_at(*options.price);
}

}  // namespace sftbench
