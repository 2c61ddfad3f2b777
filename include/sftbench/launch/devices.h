// Are the devices that a job asks for there? Asked before libtorch is loaded, of NVIDIA's driver.
#pragma once

#include <string>
#include <vector>

#include "sftbench/catalog/gpus.h"
#include "sftbench/measure/mfu.h"
#include "sftbench/measure/nvml.h"
#include "sftbench/plan/training_job.h"

namespace sftbench {

// RunError(kUnsupported) when the job wants GPUs and there are none (with `no_nvml`, the reason why
// NVML could not be loaded), too few on this node, or others than its gpu_model, naming both.
// `nvml` is nullptr where there is no driver. Names are compared as the catalog knows them.
// Too few are enough where ranks may share them (ranks/gpu_sharing.h).
void check_devices(const TrainingJob& job, const Nvml* nvml, const std::string& no_nvml,
                   const GpuCatalog& catalog);

// GPUs of this node that the job's ranks use: one for each rank, or all that there are.
int64_t gpus_in_use(const TrainingJob& job, const Nvml* nvml);

// Same product, whatever the spelling: by catalog, else by letters and digits alone.
bool same_gpu_model(const std::string& a, const std::string& b, const GpuCatalog& catalog);

// Peak of the job's devices in `dtype`, from the catalog; or why it is not known.
DevicePeak device_peak(const TrainingJob& job, const Nvml* nvml, const GpuCatalog& catalog,
                       const std::string& dtype);

}  // namespace sftbench
