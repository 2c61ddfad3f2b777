#include "sftbench/launch/devices.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "sftbench/base/error.h"
#include "sftbench/base/text.h"
#include "sftbench/ranks/gpu_sharing.h"

namespace sftbench {
namespace {

std::string letters_and_digits(const std::string& text) {
  std::string kept;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte)) kept += static_cast<char>(std::tolower(byte));
  }
  return kept;
}

int64_t ranks_of_a_node(const TrainingJob& job) {
  return job.device.ranks / std::max<int64_t>(1, job.device.nodes);
}

std::string names_of(const std::vector<GpuIdentity>& gpus) {
  const auto count_of = [&gpus](const std::string& name) {
    return std::count_if(gpus.begin(), gpus.end(),
                         [&name](const GpuIdentity& gpu) { return gpu.name == name; });
  };
  std::set<std::string> names;
  for (const GpuIdentity& gpu : gpus) names.insert(gpu.name);
  std::vector<std::string> parts;
  for (const std::string& name : names) {
    parts.push_back(std::to_string(count_of(name)) + " x " + name);
  }
  return join(parts);
}

}  // namespace

bool same_gpu_model(const std::string& a, const std::string& b, const GpuCatalog& catalog) {
  const GpuFacts* facts_a = catalog.find(a);
  const GpuFacts* facts_b = catalog.find(b);
  if (facts_a != nullptr && facts_b != nullptr) return facts_a == facts_b;
  return letters_and_digits(a) == letters_and_digits(b);
}

void check_devices(const TrainingJob& job, const Nvml* nvml, const std::string& no_nvml,
                   const GpuCatalog& catalog) {
  if (job.device.kind != "cuda") return;
  const int64_t wanted = ranks_of_a_node(job);
  const std::string wants = "number_gpus asks for " + std::to_string(wanted) + " GPU" +
                            (wanted == 1 ? "" : "s") + " on this machine";
  if (nvml == nullptr) {
    throw RunError(ReasonCode::kUnsupported, wants + ", which has no NVIDIA driver", no_nvml);
  }
  const std::vector<GpuIdentity>& gpus = nvml->gpus();
  const int64_t used = gpus_in_use(job, nvml);
  if (used == 0 || (used < wanted && !ranks_may_share_gpus())) {
    throw RunError(ReasonCode::kUnsupported,
                   wants + ", which has " +
                       (gpus.empty() ? "none that this process may use" : names_of(gpus)) +
                       " (CUDA_VISIBLE_DEVICES limits what it may use)");
  }
  for (int64_t i = 0; i < used; ++i) {
    const std::string& name = gpus[static_cast<size_t>(i)].name;
    if (same_gpu_model(job.device.gpu_model, name, catalog)) continue;
    throw RunError(ReasonCode::kUnsupported, "gpu_model asks for '" + job.device.gpu_model +
                                                 "', but GPU " + std::to_string(i) +
                                                 " of this machine is '" + name + "'");
  }
}

int64_t gpus_in_use(const TrainingJob& job, const Nvml* nvml) {
  if (job.device.kind != "cuda") return 0;
  const int64_t there = nvml == nullptr ? 0 : static_cast<int64_t>(nvml->gpus().size());
  return std::min(ranks_of_a_node(job), there);
}

DevicePeak device_peak(const TrainingJob& job, const Nvml* nvml, const GpuCatalog& catalog,
                       const std::string& dtype) {
  if (job.device.kind != "cuda") {
    return {{}, "trained on the CPU; config/gpus.yaml knows peaks of GPUs only"};
  }
  const bool asked = nvml != nullptr && !nvml->gpus().empty();
  const std::string name = asked ? nvml->gpus().front().name : job.device.gpu_model;
  const GpuFacts* facts = catalog.find(name);
  if (facts == nullptr) return {{}, "config/gpus.yaml has no '" + name + "'"};
  if (const auto peak = facts->peak_flops(dtype)) return {peak, {}};
  return {{}, "config/gpus.yaml has no " + dtype + " peak of '" + facts->name + "'"};
}

}  // namespace sftbench
