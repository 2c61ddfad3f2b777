// What `doctor --probe` measured of this machine, kept in the user's data directory for `predict`,
// `recommend` and `explain`:
//
//   {schema, made_at, cpu, cores, threads,
//    dtypes: {NAME: {products: [[rows, out, in, FLOP/s], ...], head: [[rows, FLOP/s], ...],
//                    attention: [[length, FLOP/s], ...], element_bytes_per_s,
//                    runs: [[{compute_s, update_s, rest_s}, ...], ...]}},
//    memory_bytes_per_s, collectives: {ranks, latency_s, bytes_per_s} or {problem}}
//
// `runs` are the jobs of plan/probe_jobs.h, all of them at several times. Their medians count, and
// how far they lie apart is how far two measurements on this machine do.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/predict/cost_model.h"

namespace sftbench {

inline constexpr const char* kProbeSchema = "sftbench.probe/4";

// user_data_directory()/machine.json.
std::filesystem::path probe_file();

// What the small runs of a probe took beside what operators alone reach (advise/fit_probe.h).
struct ProbeFit {
  struct Compute {
    double scale = 1;     // MachineModel::compute_scale
    double launch_s = 0;  // of an operator
  };
  Compute full, frozen;  // by whether the model's weights have gradients
  double memory_bytes_per_s = 0;
  double step_s = 0;        // what a step does once
  double run_variance = 0;  // of ln(seconds of a step), between runs of one job
};

class ProbedMachine {
 public:
  // Nothing when there is no file, or when it is of another CPU, number of cores or version; then
  // `problem` says so. InputError when it cannot be read.
  static std::optional<ProbedMachine> read(const std::filesystem::path& file, std::string& problem);

  explicit ProbedMachine(Json probe);  // InputError: it lacks what doctor --probe writes

  // Of a rank of this job on CPUs. Nothing when the dtype was not probed.
  std::optional<MachineModel> machine_for(const TrainingJob& job) const;

  double run_variance() const;  // of ProbeFit, the largest

 private:
  Json probe_;
  std::map<std::string, ProbeFit> fits_;  // by dtype
};

}  // namespace sftbench
