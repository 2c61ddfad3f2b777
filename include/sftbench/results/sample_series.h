// What the samplers read over time, kept beside the result: <key>.series.json.gz, JSON in columns,
// compressed. The result names it, with its digest, in extra.series. Its fields:
// docs/reference/results.md.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "sftbench/base/json.h"
#include "sftbench/measure/measured_properties.h"
#include "sftbench/measure/run_record.h"

namespace sftbench {

inline constexpr const char* kSampleSeriesSchema = "sftbench.series/1";

// Readings of each process from before the first step to after the last, and when the steps were.
// Times are seconds since the process's own first step began. REQUIRES: a step; ranks in the
// record's order.
Json sample_series(const RunRecord& record, const std::vector<ProcessSamples>& processes,
                   int64_t warmup_steps);

// Writes it, and returns extra.series but for the file's name: {bytes, digest, samples}. InputError
// (path and the system's reason).
Json write_sample_series(const std::filesystem::path& path, const Json& series);

// InputError when it cannot be read, is not what `described` (extra.series) says, or is no series.
Json read_sample_series(const std::filesystem::path& path, const Json& described);

// The same as text, for readers of many of them: checked for its digest alone. InputError when it
// cannot be read, has another digest, cannot be decompressed, or is larger than `most_bytes` then.
std::string sample_series_text(const std::filesystem::path& path, std::string_view expected_digest,
                               size_t most_bytes);

// Where it is written while its measurement has no result, beside the log that grows:
// "x.growing.log" -> "x.growing.series.json.gz"; and "x.json" -> "x.series.json.gz".
std::filesystem::path series_beside(const std::filesystem::path& log_or_result);

}  // namespace sftbench
