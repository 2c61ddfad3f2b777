#include "cli/result_teller.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <iostream>
#include <string>

#include "sftbench/base/error.h"
#include "sftbench/base/terminal_text.h"
#include "sftbench/cli/app.h"
#include "sftbench/results/sample_series.h"

namespace sftbench {
namespace {

// The series got its name as the result was written.
Measurement as_kept(Measurement measurement, const std::optional<ResultPlace::Kept>& kept) {
  const auto series = measurement.extra.find("series");
  if (series == measurement.extra.end()) return measurement;
  if (!kept) {
    measurement.extra.erase("series");
    return measurement;
  }
  Json named = {{"file", series_beside(kept->path).filename().string()}};
  named.update(*series);
  *series = std::move(named);
  return measurement;
}

}  // namespace

int ResultTeller::tell(const Measurement& measurement) {
  const std::lock_guard lock(told_mutex_);
  if (told_) return *told_;
  if (const auto& reason = measurement.reason; reason && format_ != OutputFormat::kTable) {
    spdlog::error("{}", reason_text(reason->code, reason->message, reason->evidence));
  }
  // Write the file before printing: the reader of standard output may have closed the pipe.
  const std::optional<ResultPlace::Kept> kept = keep(measurement);
  const std::string text = render(as_kept(measurement, kept), format_, prices_);
  const size_t columns = format_ == OutputFormat::kTable ? terminal_columns(STDOUT_FILENO) : 0;
  std::cout << wrapped(text, columns) << std::flush;
  if (kept) kept->tell();
  const bool whole = kept && !kept->lost && !measurement.extra.contains("unsaved");
  told_ = whole ? exit_code(measurement.status) : kFailedExitCode;
  return *told_;
}

int ResultTeller::tell_at_the_end(const Measurement& measurement) {
  const int status = tell(measurement);
  place_.give_back();
  return status;
}

std::optional<ResultPlace::Kept> ResultTeller::keep(const Measurement& measurement) {
  try {
    return place_.write(measurement);
  } catch (const KeyBusy& error) {  // the files of this key are another process's now
    spdlog::error("{}; the measurement is printed, but not kept", error.what());
    return std::nullopt;
  } catch (const InputError& error) {
    watcher_.remove_files();
    spdlog::error("{}; the measurement is printed, but not kept", error.what());
    return std::nullopt;
  }
}

}  // namespace sftbench
