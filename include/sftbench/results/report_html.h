// A report as one page: a file that needs no network and no server, opens in any browser of 2024 or
// later, and holds every measurement that it was given. The page itself (src/results/html/)
// filters, sorts and draws; what is written here is its data, column by column, compressed.
//
// Nothing of a measurement reaches the page as markup: the data is base64 inside a data block, and
// the page puts texts into the document as texts.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

namespace sftbench {

struct StoreScan;

struct HtmlOptions {
  std::string source = {};      // where the results come from, as the user named it
  std::string created_by = {};  // program, version and commit that write the page
  std::string created_at = {};  // UTC, ISO 8601
  // What one GPU costs, by gpu_model (config/prices.yaml). A product that is not
  // among them has no price: its configurations are ranked by tokens per second, and the reader may
  // enter a price on the page.
  std::map<std::string, double> usd_per_gpu_hour = {};
  std::map<std::string, int64_t> gpu_memory_bytes = {};  // by gpu_model, where it is known
  // The folder that was scanned: the curves of the valid measurements are read there. Empty: the
  // page has none.
  std::filesystem::path results = {};
};

// The whole page. Measurements stand in it in the order of the scan; files that the scan skipped
// are listed with their reasons. Numbers that take more than a few thousand different values in a
// column are kept to 7 significant digits, and the page says so.
std::string render_html(const StoreScan& scan, const HtmlOptions& options);

}  // namespace sftbench
