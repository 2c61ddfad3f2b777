// What `doctor --probe` measured of this machine, kept in the user's data directory for `predict`,
// `recommend` and `explain`:
//
//   {schema: "sftbench.probe/1", made_at, cpu, cores, threads,
//    dtypes: {NAME: {products: [[rows, out, in, FLOP/s], ...], head_flops_per_s,
//                    attention: [[length, FLOP/s], ...], element_bytes_per_s}},
//    memory_bytes_per_s, launch_s, collectives: {ranks, latency_s, bytes_per_s} or {problem},
//    disk: {write_bytes_per_s, read_bytes_per_s}}
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "sftbench/base/json.h"
#include "sftbench/plan/cost_model.h"

namespace sftbench {

// user_data_directory()/machine.json.
std::filesystem::path probe_file();

class ProbedMachine {
 public:
  // Nothing when there is no file, or when it is of another CPU or number of cores; then `problem`
  // says so. InputError when it cannot be read.
  static std::optional<ProbedMachine> read(const std::filesystem::path& file, std::string& problem);

  explicit ProbedMachine(Json probe) : probe_(std::move(probe)) {}

  // Of a rank of this job on CPUs. Nothing when the dtype was not probed.
  std::optional<MachineModel> machine_for(const TrainingJob& job) const;

 private:
  Json probe_;
};

}  // namespace sftbench
