#include "sftbench/results/sample_series.h"

#include <zlib.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <string>
#include <system_error>

#include "sftbench/base/clock.h"
#include "sftbench/base/digest.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/base/owned_fd.h"
#include "sftbench/base/shared_file.h"

namespace sftbench {
namespace {

constexpr int kGzipWindowBits = 15 + 16;
constexpr int kMemoryLevel = 8;
constexpr size_t kMostSeriesBytes = size_t{1} << 30;

std::string gzipped(const std::string& text) {
  z_stream stream{};
  check(deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, kGzipWindowBits, kMemoryLevel,
                     Z_DEFAULT_STRATEGY) == Z_OK,
        "zlib compresses");
  std::string packed(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  const int status = deflate(&stream, Z_FINISH);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  check(status == Z_STREAM_END, "what zlib compressed fits its own bound");
  return packed;
}

// Nothing when it is damaged or larger than `most_bytes`.
std::optional<std::string> unzipped(const std::string& packed, size_t most_bytes) {
  z_stream stream{};
  check(inflateInit2(&stream, kGzipWindowBits) == Z_OK, "zlib decompresses");
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text, piece(size_t{1} << 16, '\0');
  int status = Z_OK;
  while (status == Z_OK && text.size() <= most_bytes) {
    stream.next_out = reinterpret_cast<Bytef*>(piece.data());
    stream.avail_out = static_cast<uInt>(piece.size());
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(piece, 0, piece.size() - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || text.size() > most_bytes) return std::nullopt;
  return text;
}

template <typename Items, typename Number>
Json column(const Items& items, Number number) {
  Json values = Json::array();
  for (const auto& item : items) values.push_back(number(item));
  return values;
}

// Without the column where no reading has the value.
void put_gpu_column(Json& gpu, const char* name, const std::vector<SystemReading>& samples,
                    size_t index, std::optional<double> GpuReading::*value) {
  bool any = false;
  Json values = column(samples, [&](const SystemReading& sample) {
    if (index >= sample.gpus.size() || !(sample.gpus[index].*value)) return Json();
    any = true;
    return Json(*(sample.gpus[index].*value));
  });
  if (any) gpu[name] = std::move(values);
}

Json gpu_columns(const std::vector<SystemReading>& samples, size_t index) {
  Json gpu = Json::object();
  put_gpu_column(gpu, "utilization_percent", samples, index, &GpuReading::utilization_percent);
  put_gpu_column(gpu, "memory_percent", samples, index, &GpuReading::memory_percent);
  put_gpu_column(gpu, "power_watts", samples, index, &GpuReading::power_watts);
  put_gpu_column(gpu, "power_limit_watts", samples, index, &GpuReading::power_limit_watts);
  put_gpu_column(gpu, "temperature_celsius", samples, index, &GpuReading::temperature_celsius);
  put_gpu_column(gpu, "energy_joules", samples, index, &GpuReading::energy_joules);
  return gpu;
}

Json process_columns(const ProcessSamples& process, double begin_s) {
  const std::vector<SystemReading>& samples = process.samples;
  Json columns = {
      {"node", process.node},
      {"time_s", column(samples, [&](const auto& sample) { return sample.time_s - begin_s; })},
      {"cpu_seconds", column(samples, [](const auto& sample) { return sample.cpu_seconds; })},
      {"memory_percent", column(samples, [](const auto& sample) { return sample.memory_percent; })},
      {"host_memory_percent",
       column(samples, [](const auto& sample) { return sample.host_memory_percent; })},
      {"gpus", Json::array()}};
  const size_t gpus = samples.empty() ? 0 : samples.front().gpus.size();
  for (size_t gpu = 0; gpu < gpus; ++gpu) columns["gpus"].push_back(gpu_columns(samples, gpu));
  return columns;
}

// When the rank's first step began, by its own clock; of a rank that did not tell, its first
// sample.
double begin_of_rank(const RunRecord& record, size_t rank,
                     const std::vector<SystemReading>& samples) {
  if (rank == 0) return record.steps.front().begin_s;
  if (rank < record.end.ranks.size() && !record.end.ranks[rank].steps.empty())
    return record.end.ranks[rank].steps.front().begin_s;
  return samples.empty() ? 0 : samples.front().time_s;
}

double wall_clock_s(double steady_s) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count() - (steady_seconds() - steady_s);
}

[[noreturn]] void refuse_series(const std::filesystem::path& path, const std::string& why) {
  throw InputError({finding(path, {}, why)});
}

}  // namespace

Json sample_series(const RunRecord& record, const std::vector<ProcessSamples>& processes,
                   int64_t warmup_steps) {
  const double begin_s = record.steps.front().begin_s;
  Json series = {
      {"schema", kSampleSeriesSchema},
      {"begin_unix_s", wall_clock_s(begin_s)},
      {"warmup_steps", warmup_steps},
      {"steps",
       {{"begin_s",
         column(record.steps, [&](const StepEvent& step) { return step.begin_s - begin_s; })},
        {"end_s",
         column(record.steps, [&](const StepEvent& step) { return step.end_s - begin_s; })}}},
      {"processes", Json::array()}};
  for (size_t rank = 0; rank < processes.size(); ++rank) {
    series["processes"].push_back(
        process_columns(processes[rank], begin_of_rank(record, rank, processes[rank].samples)));
  }
  return series;
}

// Not synced: a result whose series a power cut took says so by the digest, and has all its
// figures.
Json write_sample_series(const std::filesystem::path& path, const Json& series) {
  const std::string packed = gzipped(json_text(series));
  const OwnedFd file = make_new_file(path, "write the samples");
  if (!write_whole(file.get(), packed)) {
    const int error = errno;
    std::error_code ignored;
    std::filesystem::remove(path, ignored);
    throw InputError(
        {finding(path, {}, "cannot write the samples: " + std::generic_category().message(error))});
  }
  size_t samples = 0;
  for (const Json& process : series.at("processes")) samples += process.at("time_s").size();
  return {{"bytes", packed.size()}, {"digest", digest(packed)}, {"samples", samples}};
}

std::string sample_series_text(const std::filesystem::path& path, std::string_view expected_digest,
                               size_t most_bytes) {
  const std::string packed = read_file(path, most_bytes);
  if (const std::string found = digest(packed); found != expected_digest) {
    refuse_series(path, "is not what the measurement wrote: its digest is " + found + ", not " +
                            std::string(expected_digest));
  }
  std::optional<std::string> text = unzipped(packed, most_bytes);
  if (!text) {
    refuse_series(path,
                  "cannot be decompressed into at most " + std::to_string(most_bytes) + " bytes");
  }
  return std::move(*text);
}

Json read_sample_series(const std::filesystem::path& path, const Json& described) {
  const std::string text =
      sample_series_text(path, described.value("digest", ""), kMostSeriesBytes);
  Json series = Json::parse(text, nullptr, false);
  if (!series.is_object() || series.value("schema", "") != kSampleSeriesSchema) {
    refuse_series(path, std::string("is no ") + kSampleSeriesSchema);
  }
  return series;
}

std::filesystem::path series_beside(const std::filesystem::path& log_or_result) {
  return log_or_result.parent_path() / (log_or_result.stem().string() + ".series.json.gz");
}

}  // namespace sftbench
