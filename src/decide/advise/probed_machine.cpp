#include "sftbench/advise/probed_machine.h"

#include <algorithm>
#include <cmath>

#include "advise/fit_probe.h"
#include "sftbench/base/error.h"
#include "sftbench/base/file.h"
#include "sftbench/base/quantity_text.h"
#include "sftbench/measure/host_info.h"

namespace sftbench {
namespace {

constexpr const char* kAnyProbe = "sftbench.probe/";

[[noreturn]] void refuse_contents() {
  throw InputError({{probe_file().string(),
                     0,
                     {},
                     "lacks what this version measures",
                     "what sftbench doctor --probe writes",
                     {}}});
}

// Between the two nearest lengths, in logarithms of both; beyond the ends, the last one.
double rate_at(const Json& rates, double length) {
  const auto at = [&rates](size_t i) {
    return std::pair(rates.at(i).at(0).get<double>(), rates.at(i).at(1).get<double>());
  };
  if (length <= at(0).first) return at(0).second;
  for (size_t i = 1; i < rates.size(); ++i) {
    const auto [low, low_rate] = at(i - 1);
    const auto [high, high_rate] = at(i);
    if (length > high) continue;
    const double share = std::log(length / low) / std::log(high / low);
    return low_rate * std::pow(high_rate / low_rate, share);
  }
  return at(rates.size() - 1).second;
}

// What operators reach alone, of a rank that has this share of the threads that were probed.
MachineModel alone(const Json& rates, const TrainingJob& job, double share) {
  MachineModel machine;
  for (const Json& product : rates.at("products")) {
    machine.products.push_back(
        {product.at(0), product.at(1), product.at(2), share * product.at(3).get<double>()});
    machine.flops_per_s = std::max(machine.flops_per_s, machine.products.back().flops_per_s);
  }
  const auto length = static_cast<double>(job.data.model_max_length);
  const double rows = length * static_cast<double>(job.batches.per_device_batch_size);
  machine.head_flops_per_s = share * rate_at(rates.at("head"), rows);
  machine.attention_flops_per_s = share * rate_at(rates.at("attention"), length);
  machine.element_bytes_per_s = share * rates.at("element_bytes_per_s").get<double>();
  machine.stack = StackModel::named("sftbench");
  machine.stack.unit_s = machine.stack.contention = 0;
  machine.launches_add = true;
  return machine;
}

LinkModel link_of(const Json& times, bool busy) {
  const Json& found = times.at(busy ? "busy" : "idle");
  return {found.at("latency_s"), found.at("bytes_per_s"), false};
}

// Of ranks on one machine. Where every core has a rank, exchanges take the time of those that
// compute.
void put_links(const Json& collectives, const TrainingJob& job, MachineModel& machine) {
  if (!collectives.contains("all_gather")) return;  // no communicator, as the probe said
  const bool busy = !machine.overlaps;
  const bool wide = job.precision.torch_dtype == ParameterDtype::kFloat32 ||
                    job.parallel.reduce_dtype == "float32";
  machine.inside = link_of(collectives.at("all_gather"), busy);
  machine.inside_sums =
      link_of(collectives.at("reduce_scatter").at(wide ? "float32" : "bfloat16"), busy);
}

}  // namespace

std::filesystem::path probe_file() {
  return user_data_directory() / "machine.json";
}

std::optional<ProbedMachine> ProbedMachine::read(const std::filesystem::path& file,
                                                 std::string& problem) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) return std::nullopt;
  Json probe = read_json_file(file.string());
  const std::string schema = probe.is_object() ? probe.value("schema", std::string()) : "";
  if (!schema.starts_with(kAnyProbe)) {
    throw InputError({{file.string(),
                       0,
                       "schema",
                       "is not that of a probe",
                       "what sftbench doctor --probe writes",
                       {}}});
  }
  if (schema != kProbeSchema) {
    problem =
        file.string() + " was written by another version: sftbench doctor --probe measures anew";
    return std::nullopt;
  }
  const HostInfo host = read_host_info();
  if (probe.value("cpu", std::string()) == host.cpu && probe.value("cores", 0) == host.cores)
    return ProbedMachine(std::move(probe));
  problem = file.string() + " is of another machine (" + probe.value("cpu", std::string("?")) +
            ", " + counted(probe.value("cores", 0), "core") +
            "): sftbench doctor --probe measures this one";
  return std::nullopt;
}

ProbedMachine::ProbedMachine(Json probe) : probe_(std::move(probe)) {
  try {
    for (const auto& [dtype, rates] : probe_.at("dtypes").items()) {
      const Json& of_dtype = rates;
      fits_[dtype] = fit_to_runs(named<ParameterDtype>(dtype), rates.at("runs"),
                                 [&](const TrainingJob& job) { return alone(of_dtype, job, 1); });
    }
  } catch (const Json::exception&) {
    refuse_contents();
  }
}

double ProbedMachine::run_variance() const {
  double largest = 0;
  for (const auto& [dtype, fit] : fits_) largest = std::max(largest, fit.run_variance);
  return largest;
}

std::optional<MachineModel> ProbedMachine::machine_for(const TrainingJob& job) const {
  const std::string dtype = product_dtype_name(job.precision.torch_dtype, job.precision.autocast);
  const auto found = fits_.find(dtype);
  if (found == fits_.end()) return std::nullopt;
  const ProbeFit& fit = found->second;
  try {
    const auto ranks = static_cast<double>(std::max<int64_t>(1, job.device.ranks));
    const double threads = job.device.threads > 0
                               ? static_cast<double>(job.device.threads)
                               : std::max(1.0, probe_.at("cores").get<double>() / ranks);
    const double share = threads / probe_.at("threads").get<double>();
    MachineModel machine = alone(probe_.at("dtypes").at(dtype), job, share);
    const auto& compute = row_of(job.tuning).trains_weights ? fit.full : fit.frozen;
    machine.compute_scale = compute.scale;
    machine.stack.launch_s = compute.launch_s;
    machine.memory_bytes_per_s = fit.memory_bytes_per_s / ranks;
    machine.stack.step_s = fit.step_s;
    machine.overlaps = ranks * threads < probe_.at("cores").get<double>();
    put_links(probe_.at("collectives"), job, machine);
    return machine;
  } catch (const Json::exception&) {
    refuse_contents();
  }
}

}  // namespace sftbench
