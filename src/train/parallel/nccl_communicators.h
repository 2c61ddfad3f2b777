// Communicators over NCCL, for ranks on GPUs.
#pragma once

#include <torch/types.h>

#include <string>

#include "sftbench/parallel/process_mesh.h"

namespace sftbench {

// `scope` is a prefix of keys in the group's store that nothing else uses; device is this rank's.
// NCCL_LAUNCH_ORDER_IMPLICIT=1 is set when absent: operations of several communicators run in the
// order in which the host starts them, which is the same on every rank. RunError(kUnsupported) when
// this build or this machine has no NCCL, or when ranks have the same GPU (ranks/gpu_sharing.h).
ProcessMesh::MakeCommunicator nccl_communicators(RankGroup& group, const std::string& scope,
                                                 torch::Device device);

}  // namespace sftbench
