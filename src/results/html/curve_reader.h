// The curves of one measurement: of its result file the loss and the times of its steps, of the
// series beside it (results/sample_series.h) the use of GPUs, CPU and memory, and power.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "results/html/curve.h"

namespace sftbench::html {

struct MeasurementCurves {
  std::vector<Curve> curves;
  bool has_series = false;  // the result names one
  std::string problem;      // why the series was not read; empty: it was, or there is none
};

// One per thread.
class CurveReader {
 public:
  CurveReader();
  ~CurveReader();

  // At most `most` places a curve. A file that is gone, or is none that was written here, has none.
  MeasurementCurves read(const std::filesystem::path& result, size_t most);

 private:
  struct Parser;
  std::unique_ptr<Parser> parser_;
};

}  // namespace sftbench::html
