// --kubernetes KEY=VALUE: what a cluster calls the things that manifests name.
#pragma once

#include <string>
#include <vector>

namespace sftbench {

struct KubernetesSettings {
  std::string namespace_name;                   // namespace; empty: kubectl's
  std::string image;                            // empty: as the Containerfile's comments name it
  std::string claim = "sftbench-results";       // of the shared volume
  std::string queue;                            // Kueue's LocalQueue; empty: none
  std::string gpu_resource = "nvidia.com/gpu";  // gpu-resource
  std::string gpu_label =
      "nvidia.com/gpu.product";  // gpu-label, of nodes; of GPU feature discovery
  std::string roce_resource = "nvidia.com/roce_gdr";  // roce-resource
  int64_t roce_devices = 2;                           // roce-devices, of each pod
  std::string network;          // of Multus, for pods with RoCE; empty: no annotation
  std::string service_account;  // service-account; empty: the namespace's default
  std::string memory;           // of each pod, as 64Gi; empty: what the cluster gives
};

// InputError with all that is wrong.
KubernetesSettings read_kubernetes_settings(const std::vector<std::string>& assignments);

}  // namespace sftbench
