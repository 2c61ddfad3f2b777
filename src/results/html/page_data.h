// The data of a page: the block that data.js decodes.
#pragma once

#include <string>

#include "results/html/curve_set.h"
#include "sftbench/results/report_html.h"

namespace sftbench::html {

// Base64. `cache` keeps what was read of curves for the next time.
std::string packed_data(const StoreScan& scan, const HtmlOptions& options, CurveCache& cache);

}  // namespace sftbench::html
