#include "cli/page_options.h"

#include <vector>

#include "cli/price_options.h"
#include "sftbench/base/build_info.h"
#include "sftbench/base/clock.h"
#include "sftbench/catalog/catalog.h"

namespace sftbench {

HtmlOptions page_options(const std::string& source) {
  HtmlOptions options;
  options.source = source;
  options.created_by = version_text();
  options.created_at = utc_now_iso8601();
  const PriceBook book = read_price_book({});
  for (const GpuFacts& gpu : Catalog::shipped().gpus.gpus()) {
    const Price* price = book.find(gpu.name);
    std::vector<std::string> names = gpu.aliases;
    names.push_back(gpu.name);
    for (const std::string& name : names) {
      if (price != nullptr) options.usd_per_gpu_hour[name] = price->per_hour;
      if (gpu.memory_bytes > 0) options.gpu_memory_bytes[name] = gpu.memory_bytes;
    }
  }
  return options;
}

}  // namespace sftbench
