// What an hour of a GPU costs: config/prices.yaml, or the user's own book.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "sftbench/catalog/gpus.h"

namespace sftbench {

struct Price {
  std::string gpu;  // as config/gpus.yaml names it
  double per_hour = 0;
  std::string kind;  // on_demand, spot, reserved
  std::string region;
  std::string date;
  std::string mark;  // read, recalled
  std::string source;
};

struct PriceBook {
  std::string file;
  std::string currency;
  std::map<std::string, Price> prices;  // by GPU

  const Price* find(const std::string& gpu) const;

  // InputError with everything that is wrong with the file: an unknown GPU, one that has two
  // prices, a price that is not above 0.
  static PriceBook read(const std::string& path, const GpuCatalog& gpus);
};

}  // namespace sftbench
