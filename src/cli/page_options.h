// What a page of results is given beside them.
#pragma once

#include <string>

#include "sftbench/results/report_html.h"

namespace sftbench {

// Source, program and time; prices and memory of the GPUs that the catalog knows. Without the folder of the
// results, and so without curves.
HtmlOptions page_options(const std::string& source);

}  // namespace sftbench
