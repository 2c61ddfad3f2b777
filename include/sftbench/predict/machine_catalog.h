// What the cost model takes machines to be (config/machines.yaml), for GPUs that config/gpus.yaml
// knows. Assumptions with their sources; each can be replaced on the command line of `predict`.
#pragma once

#include <string>
#include <vector>

#include "sftbench/catalog/gpus.h"
#include "sftbench/predict/cost_model.h"

namespace sftbench {

struct MachineFacts {
  std::vector<std::string> gpus;
  double reached = 0;    // of the peak of the dtype that products run in, by large products
  double attention = 0;  // of the same peak, by flash attention
  double elements = 0;   // of the memory's bandwidth, by element-wise kernels
  std::vector<std::string> fitted;  // models that these constants were fitted on
  LinkModel inside;
  LinkModel between;
  std::string source;
};

class MachineCatalog {
 public:
  static const MachineCatalog& shipped();  // config/machines.yaml, for the shipped GPUs

  // InputError with everything that is wrong with the file, a GPU that `gpus` does not know among
  // it.
  static MachineCatalog read(const std::string& path, const GpuCatalog& gpus);

  const MachineFacts* find(const std::string& gpu) const;
  const std::vector<MachineFacts>& all() const { return machines_; }

 private:
  std::vector<MachineFacts> machines_;
};

// InputError naming what is not known of `gpu_model`: the GPU, its machine, or a peak for `dtype`.
MachineModel machine_of(const std::string& gpu_model, const std::string& dtype,
                        const GpuCatalog& gpus, const MachineCatalog& machines);

// A GPU of which three figures are known: what large products reach, its memory's bandwidth and
// size. Attention and element-wise kernels reach the share of them that is usual among `machines`.
// Nothing is known of its links.
MachineModel unlisted_machine(double flops_per_s, double memory_bytes_per_s, double memory_bytes,
                              const MachineCatalog& machines);

}  // namespace sftbench
