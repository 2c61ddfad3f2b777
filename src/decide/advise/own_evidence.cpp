#include "sftbench/advise/own_evidence.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>

#include "sftbench/advise/scorecard.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/json_text.h"
#include "sftbench/plan/job_file.h"
#include "sftbench/results/store.h"
#include "sftbench/results/table.h"

namespace sftbench {
namespace {

namespace fs = std::filesystem;

// Rates of one configuration that differ by more are no noise.
constexpr double kContradiction = 1.5;

[[noreturn]] void refuse_result(const std::string& path, const std::string& found) {
  throw InputError({{path, 0, {}, found, "a valid result with measured steps", {}}});
}

const Json& member(const Json& json, const std::string& path, const std::string& origin) {
  const Json::json_pointer pointer(path);
  if (!json.contains(pointer)) refuse_result(origin, "has no " + path.substr(1));
  return json.at(pointer);
}

void read_steps(OwnMeasurement& own, const Json& extra) {
  std::vector<double> seconds = member(extra, "/step_seconds", own.file).get<std::vector<double>>();
  const auto warmup =
      std::min<int64_t>(extra.value("warmup_steps", int64_t{0}), std::ssize(seconds));
  const auto first = seconds.begin() + warmup;
  if (first == seconds.end()) refuse_result(own.file, "has no step behind the warm-up");
  const auto slowest = std::max_element(first, seconds.end());
  own.mean_step_s =
      std::accumulate(first, seconds.end(), 0.0) / static_cast<double>(seconds.end() - first);
  own.slowest_step = slowest - seconds.begin() + 1;
  own.slowest_step_s = *slowest;
  // The first step also asks for memory.
  const auto typical = first + (warmup == 0 && seconds.size() > 2 ? 1 : 0);
  const auto middle = typical + (seconds.end() - typical) / 2;
  std::nth_element(typical, middle, seconds.end());
  own.step_s = *middle;
}

// Rows are as long as their micro-batch needs them: on average.
int64_t mean_row_length(const Json& extra, const TrainingJob& job, const std::string& origin) {
  const auto padded = member(extra, "/tokens/padded", origin).get<double>();
  const auto steps = static_cast<double>(member(extra, "/step_seconds", origin).size()) -
                     extra.value("warmup_steps", 0.0);
  const auto rows = static_cast<double>(job.batches.per_device_batch_size *
                                        job.batches.gradient_accumulation_steps * data_ranks(job));
  return std::max<int64_t>(1, std::llround(padded / (rows * std::max(1.0, steps))));
}

// Tells measurements of one configuration that contradict each other.
class Contradictions {
 public:
  void add(const std::string& configuration, const std::string& source, double rate,
           const char* unit) {
    const auto [place, is_new] = seen_.emplace(configuration, std::pair(source, rate));
    const auto& [other, other_rate] = place->second;
    if (is_new || std::max(rate / other_rate, other_rate / rate) <= kContradiction) return;
    warnings_.push_back(other + " and " + source + " are one configuration and say " +
                        cell_text(other_rate) + " and " + cell_text(rate) + " " + unit +
                        ": both count, leave out the one that is wrong");
  }
  std::vector<std::string> take() { return std::move(warnings_); }

 private:
  std::map<std::string, std::pair<std::string, double>> seen_;
  std::vector<std::string> warnings_;
};

using GpuWatts = std::map<std::string, std::vector<double>>;

std::map<std::string, double> medians_of(GpuWatts all) {
  std::map<std::string, double> medians;
  for (auto& [gpu, watts] : all) {
    const auto middle = watts.begin() + std::ssize(watts) / 2;
    std::nth_element(watts.begin(), middle, watts.end());
    medians[gpu] = *middle;
  }
  return medians;
}

void add_result(const std::string& file, Oracle& oracle, OwnEvidence& evidence, GpuWatts& gpu_watts,
                Contradictions& contradictions) {
  const OwnMeasurement own = read_own_measurement(file);
  const Prediction prediction = oracle.predict(own.job);
  const auto add = [&](Figure figure, double measured, double predicted) {
    evidence.residuals.push_back(
        {prediction.at, figure, false, false, std::log(measured / predicted)});
  };
  add(Figure::kTime, own.step_s, prediction.cost.step_s);
  if (own.allocated_bytes)
    add(Figure::kMemory, *own.allocated_bytes, prediction.cost.memory.total());
  const Json gpu = own.job.inputs.value("gpu_model", Json());
  if (own.gpu_watts && gpu.is_string()) gpu_watts[gpu.get<std::string>()].push_back(*own.gpu_watts);
  contradictions.add(json_text(own.job.inputs), file, own.step_s, "s per step");
  ++evidence.results;
}

void add_results(const std::string& folder, Oracle& oracle, OwnEvidence& evidence,
                 Contradictions& contradictions) {
  GpuWatts gpu_watts;
  const StoreScan scan = ResultStore(folder).scan();
  for (const StoredResult& result : scan.results) {
    if (result.status != Status::kValid || result.simulated() || result.steps.count == 0) continue;
    const std::string file = (fs::path(folder) / std::string(result.file)).string();
    try {
      add_result(file, oracle, evidence, gpu_watts, contradictions);
    } catch (const InputError& error) {
      evidence.warnings.emplace_back(error.what());
    } catch (const RunError& error) {
      evidence.warnings.push_back(file + ": " + error.what());
    }
  }
  evidence.gpu_watts = medians_of(std::move(gpu_watts));
}

void add_imported(const std::vector<std::string>& files, Oracle& oracle, const Catalog& catalog,
                  OwnEvidence& evidence, Contradictions& contradictions) {
  for (const std::string& file : files) {
    const std::vector<ScoredRow> rows = score(read_evidence(file), oracle, catalog);
    for (const ScoredRow& row : rows) {
      const Evidence& e = row.evidence;
      if (!row.time_error && !row.memory_error) continue;
      ++evidence.imported;
      if (!row.time_error) continue;
      contradictions.add(e.experiment + e.stack + json_text(e.inputs), e.source,
                         *e.tokens_per_second, "tokens/s");
    }
    for (Residual& residual : residuals_of(rows)) evidence.residuals.push_back(std::move(residual));
  }
}

}  // namespace

OwnMeasurement read_own_measurement(const std::string& path) {
  const Json json = parse_json(read_file(path), path);
  if (!json.is_object() || json.value("status", Json()) != "valid" || !json.contains("extra")) {
    refuse_result(path, "is no valid result");
  }
  OwnMeasurement own;
  own.file = path;
  own.job = read_job_file(path).job;
  try {
    const Json& extra = json.at("extra");
    read_steps(own, extra);
    if (own.job.data.padding != Padding::kPacked)
      own.job.data.model_max_length = mean_row_length(extra, own.job, path);
    const Json& peaks = member(extra, "/memory_bytes/device_peak_allocated", path);
    const Json of_cpus =
        extra.value(Json::json_pointer("/memory_bytes/host_peak_tensors"), Json(Json::array()));
    const Json watts = json.value(Json::json_pointer("/measured/gpu_power_watts_avg"), Json());
    if (watts.is_number() && watts.get<double>() > 0) own.gpu_watts = watts.get<double>();
    for (const Json& all : {peaks, of_cpus}) {
      for (const Json& peak : all) {
        if (peak.get<double>() <= 0) continue;
        own.allocated_bytes = std::max(own.allocated_bytes.value_or(0), peak.get<double>());
      }
    }
  } catch (const Json::exception&) {
    refuse_result(path, "extra has members of another type");
  }
  if (own.step_s <= 0) refuse_result(path, "steps took no time");
  return own;
}

std::vector<std::string> evidence_files(const std::string& place) {
  std::error_code error;
  if (!fs::is_directory(place, error)) return {place};
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(fs::path(place) / "evidence", error)) {
    if (entry.path().extension() == ".jsonl") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

OwnEvidence read_own_evidence(const std::string& folder, Oracle& oracle, const Catalog& catalog) {
  std::error_code error;
  const bool is_folder = fs::is_directory(folder, error);
  if (!is_folder && !fs::exists(folder, error)) {
    throw InputError({{folder, 0, {}, "does not exist", "a results folder", {}}});
  }
  OwnEvidence evidence;
  Contradictions contradictions;
  if (is_folder) add_results(folder, oracle, evidence, contradictions);
  add_imported(evidence_files(folder), oracle, catalog, evidence, contradictions);
  for (std::string& warning : contradictions.take())
    evidence.warnings.push_back(std::move(warning));
  if (evidence.results + evidence.imported > 0) return evidence;
  const std::string why = evidence.warnings.empty() ? "" : ": " + evidence.warnings.front();
  throw InputError({{folder,
                     0,
                     {},
                     "has nothing to compare predictions with" + why,
                     "valid results that were not simulated, or what sftbench import makes",
                     {}}});
}

}  // namespace sftbench
