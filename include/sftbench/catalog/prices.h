// What an hour of a GPU costs: config/prices.yaml, or the user's own book. A book lists offers:
// what can be rented, with all GPUs of an instance.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sftbench/catalog/gpus.h"

namespace sftbench {

struct Price {
  std::string gpu;       // as config/gpus.yaml names it
  double per_hour = 0;   // of one GPU
  std::string provider;  // these are empty where the book does not say
  std::string instance;
  int64_t gpus = 1;  // of the instance: whoever needs fewer rents all of them
  std::string kind;  // on_demand, reserved, spot, marketplace
  std::string region;
  std::string date;
  std::string mark;  // read, recalled
  std::string source;

  // Nobody takes it away before the training ends.
  bool is_kept() const { return kind != "spot" && kind != "marketplace"; }
};

// Instances of one offer that have at least so many GPUs.
struct Rent {
  Price offer;
  int64_t gpus = 0;     // of all instances
  double per_hour = 0;  // of all of them
};

struct PriceBook {
  std::string file;
  std::string currency;
  std::vector<Price> offers;            // all of the file, in its order
  std::map<std::string, Price> prices;  // by GPU: the offer that is cheapest per GPU. Offers that
                                        // are not kept count where nothing else is offered.

  const Price* find(const std::string& gpu) const;

  // What is cheapest for `gpus` of them, whole instances; nothing without an offer. Offers that are
  // not kept as above.
  std::optional<Rent> rent(const std::string& gpu, int64_t gpus) const;

  // InputError with everything that is wrong with the file: an unknown GPU, an offer that is listed
  // twice, a price that is not above 0.
  static PriceBook read(const std::string& path, const GpuCatalog& gpus);
};

}  // namespace sftbench
